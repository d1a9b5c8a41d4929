"""Labels, aliases, descriptions and, if the dump has them, site links of chosen entities, from a dump.

Wikimedia's truthy dump has terms and redirects, but neither articles nor numbers of site links. The dump of
everything, and other files of its form, have both.

Terms are kept in columns: millions of entities take hundreds of megabytes, not gigabytes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

from longtail.parsing.line_files import DumpFile, RejectedRows
from longtail.wikimedia.dumps.truthy import ENTITY, ITEM, Checked, Lines, check_chunks, strictly_read

_ENTITIES_AT_ONCE = 5_000
_KEPT_SINGLY = 10_000

_SITELINKS = "http://wikiba.se/ontology#sitelinks"
_REDIRECT = "http://www.w3.org/2002/07/owl#sameAs"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_ABOUT = "http://schema.org/about"
_ARTICLE = "https://en.wikipedia.org/wiki/"
_DATA = "https://www.wikidata.org/wiki/Special:EntityData/"
_LANGUAGES = ("en", "mul")
_ENDS = tuple(f'"@{language} .'.encode() for language in _LANGUAGES)
_NOT_PLAIN = (b"\\", b'"', b"\r")


class Kind(IntEnum):
    """The role of a text for its entity."""

    LABEL = 0
    LABEL_MUL = 1
    ALIAS = 2
    ALIAS_MUL = 3
    DESCRIPTION = 4
    DESCRIPTION_MUL = 5
    ARTICLE = 6
    SITELINKS = 7
    DATA = 8


_SECTIONS = {
    Kind.LABEL: ("labels", "en"),
    Kind.LABEL_MUL: ("labels", "mul"),
    Kind.DESCRIPTION: ("descriptions", "en"),
    Kind.DESCRIPTION_MUL: ("descriptions", "mul"),
    Kind.ALIAS: ("aliases", "en"),
    Kind.ALIAS_MUL: ("aliases", "mul"),
}


@dataclass(frozen=True)
class Told:
    """What a dump says about one entity: JSON in the form of wbgetentities, and its number of site links."""

    document: dict[str, Any]
    sitelinks: int | None


def number_of(entity_id: str) -> int:
    """The number of an item."""
    return int(entity_id[1:])


class EntityTerms:
    """The terms of the entities `ids`.

    `redirects`: id → id. `has_sitelinks`: whether the dump has articles and numbers of site links at all. `lists_all`:
    whether the dump names every entity, as Wikidata's dumps do, so that an entity without a line does not exist.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._wanted = np.unique(np.array([number_of(entity_id) for entity_id in ids], dtype=np.int64))
        self._keys: list[np.ndarray] = []  # number of the entity × 16 + kind
        self._texts: list[pa.Array] = []
        self._single: list[tuple[int, str]] = []
        self.redirects: dict[str, str] = {}
        self.has_sitelinks = False
        self.lists_all = False

    def are_wanted(self, numbers: np.ndarray) -> np.ndarray:
        """Whether each number belongs to a requested entity."""
        if not len(self._wanted):
            return np.zeros(len(numbers), dtype=bool)
        places = np.minimum(np.searchsorted(self._wanted, numbers), len(self._wanted) - 1)
        return self._wanted[places] == numbers

    def add(self, kind: Kind, number: int, text: str) -> None:
        """Store one text."""
        self._single.append((number << 4 | kind, text))
        if len(self._single) >= _KEPT_SINGLY:
            self._pack()

    def add_all(self, kind: Kind, numbers: np.ndarray, texts: list[str]) -> None:
        """Store the text of each number."""
        self._keys.append(numbers << 4 | kind)
        self._texts.append(pa.array(texts, pa.large_string()))

    def _pack(self) -> None:
        self._keys.append(np.array([key for key, _ in self._single], dtype=np.int64))
        self._texts.append(pa.array([text for _, text in self._single], pa.large_string()))
        self._single.clear()

    @cached_property
    def _sort(self) -> tuple[np.ndarray, pa.Array]:
        """Keys in order and their texts; all texts must have been added before."""
        self._pack()
        keys = np.concatenate(self._keys)
        texts = pa.chunked_array(self._texts, pa.large_string()).combine_chunks()
        self._keys, self._texts = [], []
        order = np.argsort(keys, kind="stable")
        return keys[order], texts.take(pa.array(order))

    def tells_of(self, ids: Sequence[str]) -> list[bool]:
        """Whether the dump says anything about each of `ids`."""
        first, last = self._ranges(ids)
        return list((first < last).tolist())

    def of(self, ids: Sequence[str]) -> Iterator[tuple[str, Told | None]]:
        """Yield (id, what the dump says about it) in the order of `ids`."""
        keys, texts = self._sort
        for begin in range(0, len(ids), _ENTITIES_AT_ONCE):
            batch = ids[begin : begin + _ENTITIES_AT_ONCE]
            first, last = self._ranges(batch)
            counts = last - first
            places = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            kinds, found = (keys[places] & 15).tolist(), texts.take(pa.array(places)).to_pylist()
            at = 0
            for entity_id, count in zip(batch, counts.tolist(), strict=True):
                rows = zip(kinds[at : at + count], found[at : at + count], strict=True)
                yield entity_id, _terms_of(rows) if count else None
                at += count

    def _ranges(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        keys = self._sort[0]
        numbers = np.array([number_of(entity_id) for entity_id in ids], dtype=np.int64)
        return np.searchsorted(keys, numbers << 4), np.searchsorted(keys, numbers + 1 << 4)


def _terms_of(rows: Iterator[tuple[int, str]]) -> Told:
    document: dict[str, Any] = {"labels": {}, "aliases": {}, "descriptions": {}, "sitelinks": {}}
    sitelinks: int | None = None
    for kind, text in rows:
        if kind in (Kind.ALIAS, Kind.ALIAS_MUL):
            section, language = _SECTIONS[Kind(kind)]
            aliases = document[section].setdefault(language, [])
            if {"value": text} not in aliases:
                aliases.append({"value": text})
        elif kind == Kind.ARTICLE:
            document["sitelinks"]["enwiki"] = {"title": text}
        elif kind == Kind.SITELINKS:
            if text.isascii() and text.isdecimal() and len(text) < 10:
                sitelinks = max(int(text), sitelinks or 0)
        elif kind != Kind.DATA:
            section, language = _SECTIONS[Kind(kind)]
            terms = document[section]
            # A language has one label; if a broken file has several, the alphabetically first one stays.
            terms[language] = {"value": min(text, terms.get(language, {"value": text})["value"])}
    return Told(document, sitelinks)


_TERMS = {
    "http://www.w3.org/2000/01/rdf-schema#label": (Kind.LABEL, Kind.LABEL_MUL),
    "http://www.w3.org/2004/02/skos/core#altLabel": (Kind.ALIAS, Kind.ALIAS_MUL),
    "http://schema.org/description": (Kind.DESCRIPTION, Kind.DESCRIPTION_MUL),
}


def _iri(text: str) -> str:
    return re.escape(text)


_PREDICATES = "|".join(_iri(name) for name in (*_TERMS, _SITELINKS, _REDIRECT))
_HEAD = re.compile(
    rf"[ \t]*(?:<{_iri(ENTITY)}(?P<subject>Q[1-9]\d*)>[ \t]*<(?:{_PREDICATES})>"
    rf"|<{_iri(_DATA)}(?P<data>Q[1-9]\d*)>[ \t]*<{_iri(_SITELINKS)}>"
    rf"|<(?:{_iri(_ARTICLE)}[^>\n]*|{_iri(_DATA)}Q[1-9]\d*)>[ \t]*<{_iri(_ABOUT)}>"
    rf"[ \t]*<{_iri(ENTITY)}(?P<object>Q[1-9]\d*)>)".encode()
)


def read_terms(
    dump: DumpFile, ids: Sequence[str], rejected: RejectedRows, log: logging.Logger
) -> EntityTerms:
    """What the dump says about the entities `ids`. Unreadable lines are rejected. Errors: `SourceError`."""
    wanted = frozenset(entity_id.encode() for entity_id in ids)
    terms = EntityTerms(ids)
    unchecked = RejectedRows()  # odd lines: the facts' reader has put them aside already
    for part in check_chunks(dump, unchecked, log):
        is_odd = np.zeros(len(part.lines.starts), dtype=bool)
        is_odd[part.odd] = True
        strict = [*_read_terms_of(part, terms, is_odd), *_lines_with_links(part.lines, is_odd)]
        candidates = np.concatenate([np.array(sorted(strict), np.int64), part.odd])
        ours = [index for index, line in part.each(candidates) if _tells_of(line, wanted)]
        for _, triple in strictly_read(part, np.array(ours, np.int64), rejected):
            _add(terms, triple)
    return terms


def _tells_of(line: memoryview, wanted: frozenset[bytes]) -> bool:
    head = _HEAD.match(line)
    return head is not None and head[head.lastindex or 0] in wanted


def _read_terms_of(part: Checked, terms: EntityTerms, is_odd: np.ndarray) -> Iterator[int]:
    """Read the simplest lines of terms; yield the indexes of other lines that may be terms."""
    lines = part.lines
    for language, end in enumerate(_ENDS):
        which = np.flatnonzero(lines.end_with(end) & ~is_odd)
        numbers, widths = lines.numbers(lines.starts[which] + len(ITEM))
        at = lines.starts[which] + len(ITEM) + widths
        is_usual = (widths > 0) & (
            (lines.words(at) & np.uint64(0xFFFFFF)) == int.from_bytes(b"> <", "little")
        )
        yield from which[~is_usual].tolist()
        ours = np.flatnonzero(is_usual & terms.are_wanted(numbers))
        ours = ours[lines.holds(lines.starts[which[ours]], ITEM)]
        which, numbers, at = which[ours], numbers[ours], at[ours]
        for predicate, kinds in _TERMS.items():
            text = f"> <{predicate}>".encode()
            found = np.flatnonzero(lines.holds(at, text))
            is_plain = lines.holds(at[found], text + b' "')
            yield from which[found[~is_plain]].tolist()
            found = found[is_plain]
            spans = (at[found] + len(text) + 2, lines.ends[which[found]] - len(end))
            odd = _add_plain(part, terms, kinds[language], numbers[found], spans)
            yield from which[found[odd]].tolist()


def _add_plain(
    part: Checked, terms: EntityTerms, kind: Kind, numbers: np.ndarray, spans: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Read the literals in `spans` of the chunk; yield the indexes of those that need a parser."""
    if not len(numbers):
        return numbers
    view = part.chunk.view
    values = [bytes(view[start:end]) for start, end in zip(*(span.tolist() for span in spans), strict=True)]
    is_odd = np.array([any(mark in value for mark in _NOT_PLAIN) for value in values])
    is_odd |= spans[1] < spans[0]
    if is_odd.any():
        values = [value for value, odd in zip(values, is_odd.tolist(), strict=True) if not odd]
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        return np.arange(len(numbers))
    terms.add_all(kind, numbers[~is_odd], texts)
    return np.flatnonzero(is_odd)


def _lines_with_links(lines: Lines, is_odd: np.ndarray) -> Iterator[int]:
    """The indexes of lines that may hold redirects, numbers of site links, articles and data."""
    which = np.flatnonzero(lines.end_with(b"> .") & ~is_odd)
    starts = lines.starts[which]
    _, widths = lines.numbers(starts + len(ITEM))
    at = starts + len(ITEM) + widths
    is_usual = (widths > 0) & ((lines.words(at) & np.uint64(0xFFFFFF)) == int.from_bytes(b"> <", "little"))
    yield from which[~is_usual].tolist()
    usual = np.flatnonzero(is_usual)
    for predicate in (_REDIRECT, _SITELINKS):
        yield from which[usual[lines.holds(at[usual], f"> <{predicate}>".encode())]].tolist()


def _add(terms: EntityTerms, triple: ox.Quad) -> None:
    """Read one line; ignore lines that are not about the wanted entities."""
    predicate, obj = triple.predicate.value, triple.object
    if not isinstance(triple.subject, ox.NamedNode) or isinstance(obj, ox.Triple):
        return
    if predicate == _ABOUT:
        _add_article(terms, triple.subject.value, obj.value.removeprefix(ENTITY))
        return
    # Wikidata's dump of everything attaches the number of site links to the entity's data, other dumps to the entity.
    entity_id = triple.subject.value.removeprefix(ENTITY).removeprefix(_DATA)
    if predicate == _REDIRECT and isinstance(obj, ox.NamedNode):
        terms.redirects[entity_id] = obj.value.removeprefix(ENTITY)
    elif predicate == _SITELINKS and isinstance(obj, ox.Literal) and obj.datatype.value == _INTEGER:
        terms.has_sitelinks = True
        terms.add(Kind.SITELINKS, number_of(entity_id), obj.value)
    elif predicate in _TERMS and isinstance(obj, ox.Literal) and obj.language in _LANGUAGES:
        kind = _TERMS[predicate][_LANGUAGES.index(obj.language)]
        terms.add(kind, number_of(entity_id), obj.value)


def _add_article(terms: EntityTerms, article: str, entity_id: str) -> None:
    if article.startswith(_ARTICLE):
        terms.has_sitelinks = True
        title = unquote(article.removeprefix(_ARTICLE)).replace("_", " ")
        terms.add(Kind.ARTICLE, number_of(entity_id), title)
    else:
        terms.lists_all = True
        terms.add(Kind.DATA, number_of(entity_id), "")
