"""The terms of chosen entities in columns: millions of entities take hundreds of megabytes, not gigabytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

_ENTITIES_AT_ONCE = 5_000
_KEPT_SINGLY = 10_000


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
    def _sorted(self) -> tuple[np.ndarray, pa.Array]:
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
        keys, texts = self._sorted
        for begin in range(0, len(ids), _ENTITIES_AT_ONCE):
            batch = ids[begin : begin + _ENTITIES_AT_ONCE]
            first, last = self._ranges(batch)
            counts = last - first
            places = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            kinds, found = (keys[places] & 15).tolist(), texts.take(pa.array(places)).to_pylist()
            at = 0
            for entity_id, count in zip(batch, counts.tolist(), strict=True):
                rows = zip(kinds[at : at + count], found[at : at + count], strict=True)
                yield entity_id, _told(rows) if count else None
                at += count

    def _ranges(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        keys = self._sorted[0]
        numbers = np.array([number_of(entity_id) for entity_id in ids], dtype=np.int64)
        return np.searchsorted(keys, numbers << 4), np.searchsorted(keys, numbers + 1 << 4)


def _told(rows: Iterator[tuple[int, str]]) -> Told:
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
