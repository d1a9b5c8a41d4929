"""Passages of the study's collections: files of others, joined into lake table `passages`.

A passage is about the entity that its file names. Where a file names none, a passage is about an entity if its title is
that of the entity's article. The label decides only for an entity whose article is unknown, and only if no other entity
has this label: a namesake's article would be taken for it otherwise.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.datasets import entity_files_slice, find_file
from longtail.imports.records import RejectedRows, file_hashes
from longtail.retrieval.collection_passages import (
    AT_ONCE,
    COLLECTION_BITS,
    POSITION_BITS,
    format_of,
    passages_in,
)
from longtail.retrieval.excluded_pages import ExcludedPages, discard_unless_paired
from longtail.retrieval.first_rows import FirstRows
from longtail.retrieval.given_passages import given_passages
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow, Streamed
from longtail.study.backends import IMPORTED
from longtail.study.imports import COLLECTIONS, slice_of
from longtail.study.study import Study

_MOST_ASIDE = 1_000  # rows of a kind that are kept of a file in quarantine
_COUNTED = ("passages", "linked to an entity", "known already", "rows rejected")


def collect_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `passages` from the study's collections, in their order, and from the texts beside questions; and
    before it, from the same pass, table `excluded_pages`.

    If several passages have the same title and text, the first is kept; the others are put aside. Errors: `SourceError`
    where a file is missing, cannot be read, or has no passage; `LakeError` without entities. A quick run keeps only
    passages about an entity of the lake: the dense index of all of them takes longer than all its other stages.
    """
    files = [
        [slice_of(one), file_hashes(format_of(one).files(find_file(one.place, study), one))]
        for one in study.collections
    ]
    entities = [lake.content("entities")]
    if IMPORTED in lake.partitions("entities"):
        entities.append(lake.content("entities", IMPORTED))
    quick = ["quick"] if study.is_quick else []
    beside = entity_files_slice(study)
    stamp = fingerprint(COLLECTIONS, files, entities, code_version(__name__), *quick, *beside)
    discard_unless_paired(lake, stamp)
    return lake.materialise("passages", stamp, lambda: _joined(study, lake, stamp, log))


def entities_by_title(entities: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Title → the one entity with this article or, if its article is unknown, with this label."""
    of_article: dict[str, set[str]] = defaultdict(set)
    of_label: dict[str, set[str]] = defaultdict(set)
    without_article = set()
    for entity in entities:
        of_label[entity["label"]].add(entity["entity_id"])
        if entity["article_title"]:
            of_article[entity["article_title"]].add(entity["entity_id"])
        else:
            without_article.add(entity["entity_id"])
    labels = {label: ids for label, ids in of_label.items() if len(ids) == 1 and ids <= without_article}
    return {title: min(ids) for title, ids in {**labels, **of_article}.items() if len(ids) == 1}


@dataclass
class _Joined:
    """The passages of all collections, one after the other; `rejected` and `notes` fill as they are read."""

    study: Study
    entity_of: Mapping[str, str]
    known_entities: Set[str]
    left_out: ExcludedPages
    log: logging.Logger
    rejected: list[QuarantinedRow] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def rows(self, stamp: str) -> Iterator[dict[str, Any]]:
        """The rows of lake table `passages`, those of a quick run where it is one. Then table `excluded_pages` is
        written."""
        yield from self._chosen()
        self.left_out.write(stamp)

    def _chosen(self) -> Iterator[dict[str, Any]]:
        if not self.study.is_quick:
            yield from self._counted(self._all())
            return
        n_rows = yield from self._counted(
            row for row in self._all() if row["entity_id"] in self.known_entities
        )
        if not n_rows:
            self.rejected.clear()
            self.left_out.clear()
            n_rows = yield from self._counted(self._all())
        self.log.info("quick run: %d passages about an entity are searched, and no others", n_rows)

    def _counted(self, rows: Iterable[dict[str, Any]]) -> Generator[dict[str, Any], None, int]:
        n_rows = n_words = 0
        for row in rows:
            n_rows, n_words = n_rows + 1, n_words + len(row["text"].split())
            yield row
        self.notes["words_per_passage"] = round(n_words / max(n_rows, 1), 1)
        return n_rows

    def _all(self) -> Iterator[dict[str, Any]]:
        known = FirstRows()
        self.notes["collections"] = counts = {}
        for number, collection in enumerate(self.study.collections):
            place = find_file(collection.place, self.study)
            own = RejectedRows(place.name, most=_MOST_ASIDE)
            own.keep = partial(self.left_out.add, collection.name, rejected=own)
            counts[collection.name] = count = dict.fromkeys(_COUNTED, 0)
            for row in self._of(number, place, own, known, count):
                row["entity_id"] = row["entity_id"] or self.entity_of.get(row["title"])
                count["linked to an entity"] += row["entity_id"] is not None
                yield row
            self.rejected += own.list_rows()
            if not count["passages"] and not count["known already"]:
                why = f"; the first one: {own.rows[0].reason}" if own.rows else ""
                raise SourceError(
                    f"{place}: no row gives collection {collection.name} (format {collection.format}) a passage{why}"
                )
            count["rows rejected"] = own.n_rows - count["known already"]
            count |= {f"{what} left out": n for what, n in own.left_out.items()}
            told = ", ".join(f"{n:,} {what}" for what, n in count.items())
            self.log.info("%s: %s", collection.name, told)
        yield from given_passages(self.study)

    def _of(
        self, number: int, place: Path, rejected: RejectedRows, known: FirstRows, count: dict[str, int]
    ) -> Iterator[dict[str, Any]]:
        """The passages of one collection without those that were there before, with the same title and text."""
        collection = self.study.collections[number]
        passages = passages_in(collection, place, rejected)
        while some := list(islice(passages, AT_ONCE)):
            places = [one.place(number) for one in some]
            firsts = known.of([f"{len(one.title)} {one.title}{one.text}" for one in some], places)
            for one, own, first in zip(some, places, firsts, strict=True):
                if first == own:
                    count["passages"] += 1
                    yield one.columns(collection)
                else:
                    count["known already"] += 1
                    name = self.study.collections[first >> COLLECTION_BITS].name
                    row = (first & (1 << COLLECTION_BITS) - 1) >> POSITION_BITS
                    reason = f"kept once: row {row} of collection {name} has the same title and text"
                    rejected.put(one.found.row, reason, {"title": one.title, "text": one.text})


def _joined(study: Study, lake: Lake, stamp: str, log: logging.Logger) -> Computed:
    columns = ["entity_id", "label", "article_title"]
    entities = lake.read_all("entities", columns).to_pylist()
    known = {entity["entity_id"] for entity in entities}
    joined = _Joined(study, entities_by_title(entities), known, ExcludedPages(lake), log)
    return Computed(Streamed.of("passages", joined.rows(stamp)), joined.rejected, joined.notes)
