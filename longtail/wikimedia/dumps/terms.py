"""Labels, aliases, descriptions and, if the dump has them, site links of chosen entities, from a dump.

Wikimedia's truthy dump has terms and redirects, but neither articles nor numbers of site links. The dump of
everything, and other files of its form, have both.

Terms are kept in columns: millions of entities take hundreds of megabytes, not gigabytes.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox

from longtail.parsing.line_files import DumpFile, RejectedRows
from longtail.wikimedia.dumps.truthy import ENTITY, Checked, check_chunks, strictly_read

_ENTITIES_AT_ONCE = 5_000
_KEPT_SINGLY = 10_000

_SITELINKS = "http://wikiba.se/ontology#sitelinks"
_REDIRECT = "http://www.w3.org/2002/07/owl#sameAs"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_ABOUT = "http://schema.org/about"
_ARTICLE = "https://en.wikipedia.org/wiki/"
_DATA = "https://www.wikidata.org/wiki/Special:EntityData/"
_LANGUAGES = ("en", "mul")


_TERMS = {
    "http://www.w3.org/2000/01/rdf-schema#label": "labels",
    "http://www.w3.org/2004/02/skos/core#altLabel": "aliases",
    "http://schema.org/description": "descriptions",
}
_KINDS = tuple((section, language) for section in _TERMS.values() for language in _LANGUAGES)
"""The roles of a text for its entity; their places are stored, as are the following ones."""
_IS_ARTICLE, _IS_SITELINKS, _IS_DATA = range(len(_KINDS), len(_KINDS) + 3)
_ENDS = ('"@en .\n', '"@mul .\n', "> .\n")
"""How the lines end that may count."""
_NUMBER = "Q(?P<number>[1-9][0-9]{0,14})"
_PREDICATES = "|".join(map(re.escape, (*_TERMS, _SITELINKS, _REDIRECT)))
_HEADS = (
    rf"^[ \t]*<(?:{re.escape(ENTITY)}|{re.escape(_DATA)}){_NUMBER}>[ \t]*<(?:{_PREDICATES})>",
    rf"^[ \t]*<(?:{re.escape(_ARTICLE)}|{re.escape(_DATA)}Q)[^>]*>[ \t]*<{re.escape(_ABOUT)}>"
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
    unchecked = RejectedRows()  # odd lines: the facts' reader has put them aside already
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
    if predicate == _ABOUT:
        entity_id = obj.value.removeprefix(ENTITY)
        if entity_id in terms.wanted and subject.startswith(_ARTICLE):
            terms.has_sitelinks = True
            title = unquote(subject.removeprefix(_ARTICLE)).replace("_", " ")
            terms.add(_IS_ARTICLE, entity_id, title)
        elif entity_id in terms.wanted and subject.startswith(f"{_DATA}Q"):
            terms.lists_all = True
            terms.add(_IS_DATA, entity_id, "")
    elif predicate == _SITELINKS and isinstance(obj, ox.Literal) and obj.datatype.value == _INTEGER:
        # Wikidata's dump of everything attaches the number to the entity's data, other dumps to the entity.
        entity_id = subject.removeprefix(ENTITY).removeprefix(_DATA)
        if entity_id in terms.wanted:
            terms.has_sitelinks = True
            terms.add(_IS_SITELINKS, entity_id, obj.value)
    elif (entity_id := subject.removeprefix(ENTITY)) not in terms.wanted:
        return
    elif predicate == _REDIRECT and isinstance(obj, ox.NamedNode):
        terms.redirects[entity_id] = obj.value.removeprefix(ENTITY)
    elif predicate in _TERMS and isinstance(obj, ox.Literal) and obj.language in _LANGUAGES:
        terms.add(_KINDS.index((_TERMS[predicate], obj.language)), entity_id, obj.value)
