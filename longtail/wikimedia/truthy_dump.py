"""Facts, terms and site links from Wikidata's truthy dump (`latest-truthy.nt`), or any N-Triples file of its form.

A dump has thousands of millions of lines, of which few count. Arrow's regular expressions find the lines that may count,
and read those that are written as Wikidata writes them. A strict parser reads the others. Of all other lines only the
beginning and the end are checked; a line that fails is put aside under its number. Properties must be written without
escapes, as in all canonical N-Triples.

Wikimedia's truthy dump has terms and redirects, but neither articles nor numbers of site links. The dump of
everything, and other files of its form, have both. Terms are kept in columns: millions of entities take hundreds of
megabytes, not gigabytes.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox

from longtail.errors import SourceError
from longtail.parsing.line_files import Chunk, DumpFile, RejectedRows
from longtail.parsing.rdf import (
    ABOUT,
    ALIAS,
    DATA,
    DESCRIPTION,
    DIRECT,
    ENTITY,
    INTEGER,
    LABEL,
    REDIRECT,
    SITELINKS,
    parse_line,
)

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
        parsed = (parse_line(*numbered, rejected) for numbered in zip(lines, numbers, strict=True))
        triples = [line[0] if line else None for line in parsed]
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
    rejected.put(f"{name} P{predicate[1]}", reason, line)
    return None


def _number(term: object) -> int | None:
    match = re.fullmatch(_ITEM, term.value) if isinstance(term, ox.NamedNode) else None
    return int(match[1]) if match else None


def _describe(term: object) -> str:
    if isinstance(term, ox.BlankNode) or "/.well-known/genid/" in str(term):
        return "an unknown value"
    return "a literal" if isinstance(term, ox.Literal) else "another resource"


def check_chunks(dump: DumpFile, rejected: RejectedRows, log: logging.Logger) -> Iterator[Checked]:
    """The chunks. Lines that do not begin and end like triples are parsed, and put aside if they are not triples.

    Errors: `SourceError` where the file cannot be read or has no triple.
    """
    n_without = 0
    for chunk in dump.chunks(log):
        offsets = np.concatenate(([0], chunk.line_breaks + 1)).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chunk.data)]
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


_ENTITIES_AT_ONCE = 5_000
_KEPT_SINGLY = 10_000

_ARTICLE = "https://en.wikipedia.org/wiki/"
_LANGUAGES = ("en", "mul")


_TERMS = {LABEL: "labels", ALIAS: "aliases", DESCRIPTION: "descriptions"}
_KINDS = tuple((section, language) for section in _TERMS.values() for language in _LANGUAGES)
"""The roles of a text for its entity; their places are stored, as are the following ones."""
_IS_ARTICLE, _IS_SITELINKS, _IS_DATA = range(len(_KINDS), len(_KINDS) + 3)
_ENDS = ('"@en .\n', '"@mul .\n', "> .\n")
"""How the lines end that may count."""
_NUMBER = "Q(?P<number>[1-9][0-9]{0,14})"
_PREDICATES = "|".join(map(re.escape, (*_TERMS, SITELINKS, REDIRECT)))
_HEADS = (
    rf"^[ \t]*<(?:{re.escape(ENTITY)}|{re.escape(DATA)}){_NUMBER}>[ \t]*<(?:{_PREDICATES})>",
    rf"^[ \t]*<(?:{re.escape(_ARTICLE)}|{re.escape(DATA)}Q)[^>]*>[ \t]*<{re.escape(ABOUT)}>"
    rf"[ \t]*<{re.escape(ENTITY)}{_NUMBER}>",
)
"""The beginnings of lines about an entity."""


@dataclass(frozen=True)
class DumpedEntity:
    """What a dump says about one entity: JSON in the form of wbgetentities, and its number of site links."""

    document: dict[str, Any]
    sitelinks: int | None


class EntityTerms:
    """The terms of the entities `ids`.

    `redirects`: id → id. `has_sitelinks`: whether the dump has articles and numbers of site links at all. `lists_all`:
    whether the dump names every entity, as Wikidata's dumps do, so that an entity without a line does not exist.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.wanted = frozenset(ids)
        self._numbers = np.unique(np.array([int(entity_id[1:]) for entity_id in ids], dtype=np.int64))
        self._parts: list[pa.Table] = []  # key: number of the entity × 16 + kind
        self._single: list[tuple[int, str]] = []
        self.redirects: dict[str, str] = {}
        self.has_sitelinks = False
        self.lists_all = False

    def are_wanted(self, numbers: np.ndarray) -> np.ndarray:
        """Whether each number belongs to a requested entity."""
        if not len(self._numbers):
            return np.zeros(len(numbers), dtype=bool)
        places = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return self._numbers[places] == numbers

    def add(self, kind: int, entity_id: str, text: str) -> None:
        """Store one text of a requested entity."""
        self._single.append((int(entity_id[1:]) << 4 | kind, text))
        if len(self._single) >= _KEPT_SINGLY:
            self._pack()

    def _pack(self) -> None:
        keys, texts = [key for key, _ in self._single], [text for _, text in self._single]
        self._parts.append(
            pa.table({"key": pa.array(keys, pa.int64()), "text": pa.array(texts, pa.large_string())})
        )
        self._single.clear()

    @functools.cached_property
    def _sort(self) -> tuple[np.ndarray, pa.ChunkedArray]:
        """Keys in order and their texts; all texts must have been added before."""
        self._pack()
        table = pa.concat_tables(self._parts)
        self._parts = []
        table = table.take(pc.sort_indices(table, [("key", "ascending")]))
        return table["key"].to_numpy(), table["text"]

    def have_lines(self, ids: Sequence[str]) -> list[bool]:
        """Whether the dump says anything about each of `ids`."""
        first, last = self._ranges(ids)
        return list((first < last).tolist())

    def of(self, ids: Sequence[str]) -> Iterator[tuple[str, DumpedEntity | None]]:
        """Yield (id, what the dump says about it) in the order of `ids`."""
        keys, texts = self._sort
        for begin in range(0, len(ids), _ENTITIES_AT_ONCE):
            batch = ids[begin : begin + _ENTITIES_AT_ONCE]
            first, last = self._ranges(batch)
            places = np.concatenate([np.arange(*span) for span in zip(first, last, strict=True)])
            rows = zip((keys[places] & 15).tolist(), texts.take(pa.array(places)).to_pylist(), strict=True)
            for entity_id, count in zip(batch, (last - first).tolist(), strict=True):
                yield entity_id, _entity_of([next(rows) for _ in range(count)]) if count else None

    def _ranges(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        keys = self._sort[0]
        numbers = np.array([int(entity_id[1:]) for entity_id in ids], dtype=np.int64)
        return np.searchsorted(keys, numbers << 4), np.searchsorted(keys, numbers + 1 << 4)


def _entity_of(rows: Sequence[tuple[int, str]]) -> DumpedEntity:
    document: dict[str, Any] = {"labels": {}, "aliases": {}, "descriptions": {}, "sitelinks": {}}
    sitelinks: int | None = None
    for kind, text in rows:
        if kind == _IS_ARTICLE:
            document["sitelinks"]["enwiki"] = {"title": text}
        elif kind == _IS_SITELINKS:
            if text.isascii() and text.isdecimal() and len(text) < 10:
                sitelinks = max(int(text), sitelinks or 0)
        elif kind != _IS_DATA:
            section, language = _KINDS[kind]
            terms = document[section]
            if section == "aliases":
                aliases = terms.setdefault(language, [])
                if {"value": text} not in aliases:
                    aliases.append({"value": text})
            else:  # A language has one label; if a broken file has several, the alphabetically first one stays.
                terms[language] = {"value": min(text, terms.get(language, {"value": text})["value"])}
    return DumpedEntity(document, sitelinks)


def read_terms(
    dump: DumpFile, ids: Sequence[str], rejected: RejectedRows, log: logging.Logger
) -> EntityTerms:
    """What the dump says about the entities `ids`. Unreadable lines are rejected. Errors: `SourceError`."""
    terms = EntityTerms(ids)
    unchecked = RejectedRows(most=0)  # odd lines: the facts' reader has put them aside already
    for part in check_chunks(dump, unchecked, log):
        which = _lines_about(part, terms)
        for _, triple in [*part.triples, *strictly_read(part, which, rejected)]:
            _add(terms, triple)
    return terms


def _lines_about(part: Checked, terms: EntityTerms) -> np.ndarray:
    """The indexes of the lines about requested entities, without the odd ones."""
    may_count = functools.reduce(pc.or_, (pc.ends_with(part.lines, end) for end in _ENDS))
    which = part.indexes(may_count)
    lines = part.lines.take(pa.array(which))
    is_ours = np.zeros(len(which), dtype=bool)
    for head in _HEADS:
        numbers = pc.struct_field(pc.extract_regex(lines, head), "number")
        is_ours |= terms.are_wanted(numbers.cast(pa.string()).cast(pa.int64()).fill_null(0).to_numpy())
    return which[is_ours]


def _add(terms: EntityTerms, triple: ox.Quad) -> None:
    """Read one line; ignore lines that are not about the wanted entities."""
    predicate, obj = triple.predicate.value, triple.object
    if not isinstance(triple.subject, ox.NamedNode) or isinstance(obj, ox.Triple):
        return
    subject = triple.subject.value
    if predicate == ABOUT:
        entity_id = obj.value.removeprefix(ENTITY)
        if entity_id in terms.wanted and subject.startswith(_ARTICLE):
            terms.has_sitelinks = True
            title = unquote(subject.removeprefix(_ARTICLE)).replace("_", " ")
            terms.add(_IS_ARTICLE, entity_id, title)
        elif entity_id in terms.wanted and subject.startswith(f"{DATA}Q"):
            terms.lists_all = True
            terms.add(_IS_DATA, entity_id, "")
    elif predicate == SITELINKS and isinstance(obj, ox.Literal) and obj.datatype.value == INTEGER:
        # Wikidata's dump of everything attaches the number to the entity's data, other dumps to the entity.
        entity_id = subject.removeprefix(ENTITY).removeprefix(DATA)
        if entity_id in terms.wanted:
            terms.has_sitelinks = True
            terms.add(_IS_SITELINKS, entity_id, obj.value)
    elif (entity_id := subject.removeprefix(ENTITY)) not in terms.wanted:
        return
    elif predicate == REDIRECT and isinstance(obj, ox.NamedNode):
        terms.redirects[entity_id] = obj.value.removeprefix(ENTITY)
    elif predicate in _TERMS and isinstance(obj, ox.Literal) and obj.language in _LANGUAGES:
        terms.add(_KINDS.index((_TERMS[predicate], obj.language)), entity_id, obj.value)
