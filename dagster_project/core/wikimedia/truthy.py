"""Facts and terms from Wikidata's truthy dump (`latest-truthy.nt`), or any N-Triples file of its shapes.

What belongs here: which lines count, and what they say. What does not: opening the file (`dump_files`), which
entities are asked for and what the dump does not carry (`ingest`, `dump_terms`).

A dump has thousands of millions of lines, of which few count: chunks are searched for the properties and
predicates that do, and only lines found so are parsed, by a strict parser unless they are of the plainest form.
Of all other lines beginning and end are looked at; what then is no N-Triples is put aside by its number.
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

from dagster_project.core.errors import SourceError
from dagster_project.core.wikimedia.dump_files import Aside, Chunk, DumpFile

ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
_SUBJECT = re.compile(rb"<http://www\.wikidata\.org/entity/Q([1-9]\d{0,17})> <http://www\.wikidata\.org")
_ITEM = re.compile(r"http://www\.wikidata\.org/entity/Q([1-9][0-9]{0,17})")
_OBJECT = re.compile(rb" <http://www\.wikidata\.org/entity/Q([1-9]\d{0,17})> \.\r?")
_NEWLINE, _DOT, _CARRIAGE = b"\n.\r"
_STARTS = np.frombuffer(b"<_", dtype=np.uint8)


@dataclass
class Statements:
    """Statements between two items as rows (subject, property, object) of numbers, Q and P left out; some repeat."""

    parts: list[np.ndarray] = field(default_factory=list)  # each of shape (n, 3)

    def of(self, property_id: str) -> pa.Table:
        """Columns subject_id, property_id and object_id of one property: distinct, sorted as texts."""
        number = int(property_id[1:])
        rows = np.concatenate(
            [np.empty((0, 3), np.int64), *(part[part[:, 1] == number] for part in self.parts)]
        )
        pairs = pa.table({"subject_id": rows[:, 0], "object_id": rows[:, 2]})
        distinct = pairs.group_by(["subject_id", "object_id"]).aggregate([])
        subjects, objects = (_ids(distinct[name]) for name in ("subject_id", "object_id"))
        properties = pa.array([property_id]).take(pa.array(np.zeros(len(subjects), np.int64)))
        table = pa.table({"subject_id": subjects, "property_id": properties, "object_id": objects})
        return table.sort_by([("subject_id", "ascending"), ("object_id", "ascending")])


def _ids(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise("Q", numbers.cast(pa.string()), "")


def read_statements(
    dump: DumpFile, property_ids: Sequence[str], aside: Aside, log: logging.Logger
) -> Statements:
    """The truthy statements of `property_ids` between items; others of them are put aside with the reason.

    Errors: `SourceError` where the file cannot be read or holds no triple.
    """
    numbers = "|".join(property_id[1:] for property_id in property_ids)
    # Few lines hold the end of a direct property's address: found fast, its beginning is looked at afterwards.
    pattern = re.compile(rf"/prop/direct/P({numbers})>([^\n]*)\n".encode())
    found = Statements()
    for chunk in checked(dump, aside, log):
        rows: list[tuple[int, int, int]] = []
        data = chunk.data
        for match in pattern.finditer(data):
            start = data.rfind(b"\n", 0, match.start()) + 1
            subject = _SUBJECT.fullmatch(data, start, match.start())  # and the address's beginning
            obj = _OBJECT.fullmatch(match[2])
            if subject and obj:
                rows.append((int(subject[1]), int(match[1]), int(obj[1])))
            else:
                rows.extend(_strictly_read(data[start : match.end()], chunk, start, aside))
        if rows:
            found.parts.append(np.array(rows, dtype=np.int64))
    return found


def _strictly_read(line: bytes, chunk: Chunk, start: int, aside: Aside) -> Iterator[tuple[int, int, int]]:
    """The statement of a line that is not of the plainest form, if there is one between items."""
    triple = parse_line(line, chunk, start, aside)
    if triple is None or not triple.predicate.value.startswith(DIRECT):
        return
    property_id = triple.predicate.value.removeprefix(DIRECT)
    subject, obj = (_number(term) for term in (triple.subject, triple.object))
    if subject and obj:
        yield subject, int(property_id[1:]), obj
        return
    node = triple.subject
    name = node.value.removeprefix(ENTITY) if isinstance(node, ox.NamedNode) else str(node)
    reason = f"object is no item but {_what(triple.object)}" if subject else "subject is no item"
    aside.add(f"{name} {property_id}", reason, line)


def _number(term: object) -> int | None:
    match = _ITEM.fullmatch(term.value) if isinstance(term, ox.NamedNode) else None
    return int(match[1]) if match else None


def _what(term: object) -> str:
    if isinstance(term, ox.BlankNode) or "/.well-known/genid/" in str(term):
        return "an unknown value"
    return "a literal" if isinstance(term, ox.Literal) else "another resource"


def parse_line(line: bytes, chunk: Chunk, position: int, aside: Aside) -> ox.Quad | None:
    """The triple of a line, strictly read; None, and the line put aside, where it is none."""
    try:
        return next(iter(ox.parse(line, format=ox.RdfFormat.N_TRIPLES)), None)
    except SyntaxError as error:
        text = str(error.msg or error)
        reason = text.split(": ", 1)[-1].strip() if text.startswith("Parser error") else text
        aside.add(str(chunk.line_at(position)), f"not N-Triples: {reason}", line)
        return None


def checked(dump: DumpFile, aside: Aside, log: logging.Logger) -> Iterator[Chunk]:
    """The chunks; lines that do not begin and end as triples do are parsed, and put aside where they are none."""
    n_without = 0
    for chunk in dump.chunks(log):
        for start, end in _odd_lines(chunk.data):
            n_without += parse_line(chunk.data[start:end], chunk, start, aside) is None
        yield chunk
    if dump.n_lines == n_without and not dump.cut:
        raise SourceError(f"{dump.path}: holds no triple in the N-Triples format")


def _odd_lines(data: bytes) -> list[tuple[int, int]]:
    """(start, end) of the lines that neither begin with < or _ nor end with a dot, and of empty ones."""
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(bytes_ == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    last = bytes_[np.maximum(ends - 1, 0)]
    last = np.where(last == _CARRIAGE, bytes_[np.maximum(ends - 2, 0)], last)
    is_fine = np.isin(bytes_[starts], _STARTS) & (last == _DOT) & (ends > starts)
    odd = np.flatnonzero(~is_fine)
    return list(zip(starts[odd].tolist(), (ends[odd] + 1).tolist(), strict=True))
