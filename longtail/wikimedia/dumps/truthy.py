"""Facts from Wikidata's truthy dump (`latest-truthy.nt`), or any N-Triples file of its form.

A dump has thousands of millions of lines, of which few count. Arrow's regular expressions find the lines that may count,
and read those that are written as Wikidata writes them. A strict parser reads the others. Of all other lines only the
beginning and the end are checked; a line that fails is put aside under its number. Properties must be written without
escapes, as in all canonical N-Triples.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox

from longtail.errors import SourceError
from longtail.parsing.line_files import Chunk, DumpFile, RejectedRows

ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
_DOT, _BLANK, _TAB, _LESS, _UNDERSCORE = b". \t<_"
_ITEM_NUMBER, _PROPERTY_NUMBER = "[1-9][0-9]{0,14}", "[1-9][0-9]{0,8}"
_ITEM = f"{re.escape(ENTITY)}Q({_ITEM_NUMBER})"
_PROPERTY = f"{re.escape(DIRECT)}P({_PROPERTY_NUMBER})"
_USUAL = (
    rf"^<{re.escape(ENTITY)}Q(?P<subject>{_ITEM_NUMBER})> <{re.escape(DIRECT)}P(?P<property>{_PROPERTY_NUMBER})>"
    rf" <{re.escape(ENTITY)}Q(?P<object>{_ITEM_NUMBER})> \.\n$"
)
"""A statement between two items as Wikidata writes it."""
_STATEMENTS = pa.schema([(name, pa.int64()) for name in ("subject", "property", "object")])
_SURELY_NO_DUMP = 100_000  # lines without any triple


@dataclass(frozen=True)
class Checked:
    """The lines of a chunk, each with its line break; they share the chunk's memory.

    `odd`: the indexes of strictly parsed lines; `triples`: their triples.
    """

    first_line: int
    lines: pa.BinaryArray
    odd: np.ndarray
    triples: list[tuple[int, ox.Quad]]

    def indexes(self, is_wanted: pa.BooleanArray) -> np.ndarray:
        """Those of the wanted lines, without the odd ones."""
        mask = is_wanted.to_numpy(zero_copy_only=False)
        mask[self.odd] = False
        return np.flatnonzero(mask)


@dataclass
class Statements:
    """Statements between two items: numbers of subject, property and object, without Q and P; some rows repeat."""

    parts: list[pa.Table] = field(default_factory=lambda: [_STATEMENTS.empty_table()])

    def of(self, property_id: str) -> pa.Table:
        """Columns subject_id, property_id and object_id of one property: distinct, sorted as texts."""
        rows = pa.concat_tables(self.parts)
        rows = rows.filter(pc.field("property") == int(property_id[1:]))
        distinct = rows.group_by(["subject", "object"]).aggregate([])
        subjects, objects = (
            pc.binary_join_element_wise("Q", distinct[name].cast(pa.string()), "")
            for name in ("subject", "object")
        )
        properties = pa.repeat(property_id, len(subjects))
        table = pa.table({"subject_id": subjects, "property_id": properties, "object_id": objects})
        return table.sort_by([("subject_id", "ascending"), ("object_id", "ascending")])


def read_statements(
    dump: DumpFile, property_ids: Sequence[str], rejected: RejectedRows, log: logging.Logger
) -> Statements:
    """The truthy statements of `property_ids` between two items; their other statements are put aside with the reason.

    Errors: `SourceError` where the file cannot be read or has no triple.
    """
    wanted = frozenset(property_ids)
    anywhere = rf"/prop/direct/P(?:{'|'.join(property_id[1:] for property_id in sorted(wanted))})>"
    statements = Statements()
    for part in check_chunks(dump, rejected, log):
        which = part.indexes(pc.match_substring_regex(part.lines, anywhere))
        fields = pc.extract_regex(part.lines.take(pa.array(which)), _USUAL)
        is_usual = fields.is_valid()
        columns = fields.filter(is_usual).flatten()
        numbers = [column.cast(pa.string()).cast(pa.int64()) for column in columns]
        statements.parts.append(pa.table(numbers, schema=_STATEMENTS))
        strict = which[~is_usual.to_numpy(zero_copy_only=False)]
        triples = [*part.triples, *strictly_read(part, strict, rejected)]
        rows = (_statement(part.lines[index].as_py(), triple, wanted, rejected) for index, triple in triples)
        if few := [row for row in rows if row]:
            statements.parts.append(pa.table(list(map(list, zip(*few, strict=True))), schema=_STATEMENTS))
    return statements


def strictly_read(part: Checked, which: np.ndarray, rejected: RejectedRows) -> Iterator[tuple[int, ox.Quad]]:
    """(index, triple) of lines; lines that are not triples are put aside."""
    lines = part.lines.take(pa.array(which)).to_pylist()
    try:
        triples: list[ox.Quad | None] = list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError:
        triples = []
    if len(triples) != len(lines):  # some line is not a triple: find out which
        numbers = (part.first_line + which).tolist()
        triples = [parse_line(line, number, rejected) for line, number in zip(lines, numbers, strict=True)]
    for index, triple in zip(which.tolist(), triples, strict=True):
        if triple is not None:
            yield index, triple


def _statement(
    line: bytes, triple: ox.Quad, wanted: frozenset[str], rejected: RejectedRows
) -> tuple[int, int, int] | None:
    """A triple's statement between two items; put aside if only the property is wanted."""
    predicate = re.fullmatch(_PROPERTY, triple.predicate.value)
    if predicate is None or f"P{predicate[1]}" not in wanted:
        return None
    subject, obj = (_number(term) for term in (triple.subject, triple.object))
    if subject and obj:
        return subject, int(predicate[1]), obj
    node = triple.subject
    name = node.value.removeprefix(ENTITY) if isinstance(node, ox.NamedNode) else str(node)
    reason = f"object is no item but {_describe(triple.object)}" if subject else "subject is no item"
    rejected.add(f"{name} P{predicate[1]}", reason, line)
    return None


def _number(term: object) -> int | None:
    match = re.fullmatch(_ITEM, term.value) if isinstance(term, ox.NamedNode) else None
    return int(match[1]) if match else None


def _describe(term: object) -> str:
    if isinstance(term, ox.BlankNode) or "/.well-known/genid/" in str(term):
        return "an unknown value"
    return "a literal" if isinstance(term, ox.Literal) else "another resource"


def parse_line(line: bytes, number: int, rejected: RejectedRows) -> ox.Quad | None:
    """The triple of line `number`, strictly parsed; None, and the line put aside, if it is not a triple."""
    try:
        triples = list(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))
        return triples[0] if triples else None
    except SyntaxError as error:
        text = str(error.msg or error)
        reason = text.split(": ", 1)[-1].strip() if text.startswith("Parser error") else text
        rejected.add(str(number), f"not N-Triples: {reason}", line)
        return None


def check_chunks(dump: DumpFile, rejected: RejectedRows, log: logging.Logger) -> Iterator[Checked]:
    """The chunks. Lines that do not begin and end like triples are parsed, and put aside if they are not triples.

    Errors: `SourceError` where the file cannot be read or has no triple.
    """
    n_without = 0
    for chunk in dump.chunks(log):
        offsets = np.concatenate(([0], chunk.line_breaks + 1)).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chunk.view)]
        lines = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        part = Checked(chunk.first_line, lines, _odd_lines(chunk, offsets[:-1]), [])
        part.triples.extend(strictly_read(part, part.odd, rejected))
        n_without += len(part.odd) - len(part.triples)
        if dump.n_lines == n_without > _SURELY_NO_DUMP:
            break
        yield part
    if dump.n_lines == n_without:
        raise SourceError(f"{dump.path}: holds no triple in the N-Triples format")


def _odd_lines(chunk: Chunk, starts: np.ndarray) -> np.ndarray:
    """Indexes of the lines that do not start like a triple or do not end in one blank and a dot."""
    ends = chunk.line_breaks
    dot, blank, before = (chunk.array[np.maximum(ends - place, 0)] for place in (1, 2, 3))
    first = chunk.array[starts]
    is_plain = (first == _LESS) | (first == _UNDERSCORE)
    is_plain &= (dot == _DOT) & (blank == _BLANK) & (before != _BLANK) & (before != _TAB)
    return np.flatnonzero(~is_plain | (ends - starts < 4))
