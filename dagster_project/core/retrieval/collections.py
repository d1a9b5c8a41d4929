"""Passages of the study's collections: files of others, joined into lake table `passages`.

What belongs here: cutting articles, joining collections, and linking passages to entities by their titles. What does
not: the files' columns (one module per format in `imports`), and the study's keys (`study.imports`).

A passage is about an entity if its title is that of the entity's article. The label decides only for an entity whose
article is unknown, and only if no other entity has this label: a namesake's article would be taken for it otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.imports.facts import entity_files_slice
from dagster_project.core.imports.formats import CollectedText, CollectionFormat
from dagster_project.core.imports.places import find_file
from dagster_project.core.imports.records import Aside, file_hashes
from dagster_project.core.lake import Computed, Lake, Outcome, QuarantinedRow, Streamed
from dagster_project.core.retrieval.first_rows import FirstRows
from dagster_project.core.retrieval.given_passages import given_passages
from dagster_project.core.retrieval.splitting import passages_of
from dagster_project.core.study.backends import IMPORTED
from dagster_project.core.study.imports import COLLECTIONS, Collection, load_format, slice_of
from dagster_project.core.study.study import Study
from dagster_project.core.terms import clean_term

COLLECTED = "collection"
"""Column `source` of passages that come from a collection."""
_COUNTED = ("passages", "linked to an entity", "known already", "rows put aside")
_AT_ONCE = 5_000  # rows whose repetitions are looked for together
_POSITION_BITS, _COLLECTION_BITS = 16, 56
LONGEST_TITLE = 255
LONGEST_PASSAGE = 1_000  # words; DPR's have about 100, and a file cut at a quotation mark gives thousands


def collect_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `passages` from the study's collections, in their order, and from the texts beside questions.

    If several passages have the same title and text, the first is kept; the others are put aside. Errors: `SourceError`
    where a file is missing, cannot be read, or has no passage; `LakeError` without entities. A quick run keeps only
    passages about an entity: the dense index of all of them takes longer than all its other stages.
    """
    files = [
        [slice_of(one), file_hashes(_format(one).files(find_file(one.place, study), one))]
        for one in study.collections
    ]
    entities = [lake.content("entities")]
    if IMPORTED in lake.partitions("entities"):
        entities.append(lake.content("entities", IMPORTED))
    quick = ["quick"] if study.is_quick else []
    beside = entity_files_slice(study)
    stamp = fingerprint(COLLECTIONS, files, entities, code_version(__name__), *quick, *beside)
    return lake.materialise("passages", stamp, lambda: _joined(study, lake, log))


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
    """The passages of all collections, one after the other; `aside` and `notes` fill as they are read."""

    study: Study
    entity_of: Mapping[str, str]
    log: logging.Logger
    aside: list[QuarantinedRow] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of lake table `passages`, those of a quick run where it is one."""
        if not self.study.is_quick:
            yield from self._counted(self._all())
            return
        n_rows = yield from self._counted(row for row in self._all() if row["entity_id"])
        if not n_rows:
            self.aside.clear()
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
            own = Aside(place.name)
            counts[collection.name] = count = dict.fromkeys(_COUNTED, 0)
            yield from self._of(number, place, own, known, count)
            self.aside += own.rows
            if not count["passages"] and not count["known already"]:
                why = f"; the first one: {own.rows[0].reason}" if own.rows else ""
                raise SourceError(
                    f"{place}: no row gives collection {collection.name} (format {collection.format}) a passage{why}"
                )
            count["rows put aside"] = len(own.rows) - count["known already"]
            count |= {f"{what} left out": n for what, n in own.left_out.items()}
            told = ", ".join(f"{n:,} {what}" for what, n in count.items())
            self.log.info("%s: %s", collection.name, told)
        yield from given_passages(self.study)

    def _of(
        self, number: int, place: Path, aside: Aside, known: FirstRows, count: dict[str, int]
    ) -> Iterator[dict[str, Any]]:
        """The passages of one collection without those that were there before, with the same title and text."""
        collection = self.study.collections[number]
        passages = _passages(collection, place, aside)
        while some := list(islice(passages, _AT_ONCE)):
            places = [one.place(number) for one in some]
            firsts = known.of([f"{len(one.title)} {one.title}{one.text}" for one in some], places)
            for one, own, first in zip(some, places, firsts, strict=True):
                if first == own:
                    entity_id = self.entity_of.get(one.title)
                    count["passages"] += 1
                    count["linked to an entity"] += entity_id is not None
                    yield {"entity_id": entity_id, **one.columns(collection)}
                else:
                    count["known already"] += 1
                    name = self.study.collections[first >> _COLLECTION_BITS].name
                    row = (first & (1 << _COLLECTION_BITS) - 1) >> _POSITION_BITS
                    reason = f"kept once: row {row} of collection {name} has the same title and text"
                    aside.put(one.found.row, reason, {"title": one.title, "text": one.text})


@dataclass(frozen=True)
class _Passage:
    """A passage, `found` in a file; `name` within its collection, `position` in its article."""

    found: CollectedText
    name: str
    title: str
    position: int
    text: str

    def place(self, collection: int) -> int:
        """Its place among all passages, as one number."""
        position = self.position & (1 << _POSITION_BITS) - 1
        return collection << _COLLECTION_BITS | self.found.row << _POSITION_BITS | position

    def columns(self, collection: Collection) -> dict[str, Any]:
        """The row of lake table `passages`, without its entity."""
        return {
            "passage_id": f"{collection.name}:{self.name}",
            "title": self.title,
            "position": self.position,
            "text": self.text,
            "source": COLLECTED,
            "collection": collection.name,
            "collection_source": collection.source,
            "collection_date": collection.date,
            "licence": collection.licence,
            "section": self.found.section,
            "revision": self.found.revision,
            "url": self.found.url,
            "revision_date": self.found.date,
        }


def _joined(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    columns = ["entity_id", "label", "article_title"]
    entity_of = entities_by_title(lake.read_all("entities", columns).to_pylist())
    joined = _Joined(study, entity_of, log)
    return Computed(Streamed.of("passages", joined.rows()), joined.aside, joined.notes)


def _passages(collection: Collection, place: Path, aside: Aside) -> Iterator[_Passage]:
    """The passages of a file.

    A section's title stands before the passage, as Atlas's own reader has it (facebookresearch/atlas, `src/index_io.py`,
    `load_passages`), but not in the title: that must stay the article's, which links a passage to an entity.
    """
    format_ = _format(collection)
    positions: Counter[str] = Counter()
    for found, title, name, texts in _texts(format_, collection, place, aside):
        for text in texts:
            position = positions[title]
            positions[title] += 1
            own = f"{title}-{position}" if format_.gives_articles else name
            yield _Passage(found, own, title, position, f"{found.section}: {text}" if found.section else text)


def _texts(
    format_: CollectionFormat, collection: Collection, place: Path, aside: Aside
) -> Iterator[tuple[CollectedText, str, str, list[str]]]:
    """(what the file says, title, id, texts) of the rows that can be used; of rows with the same id the first."""
    known = FirstRows()
    usable = _usable(format_, collection, place, aside)
    while some := list(islice(usable, _AT_ONCE)):
        rows = [found.row for found, *_ in some]
        firsts = rows if format_.gives_articles else known.of([name for _, _, name, _ in some], rows)
        for one, first in zip(some, firsts, strict=True):
            if first == one[0].row:
                yield one
            else:
                _put_aside(aside, one[0], f"id {one[2][:60]!r}: row {first} has it already; that row is kept")


def _usable(
    format_: CollectionFormat, collection: Collection, place: Path, aside: Aside
) -> Iterator[tuple[CollectedText, str, str, list[str]]]:
    for found in format_.read(place, aside, **dict(collection.options)):
        title = clean_term(found.title, len(found.title)).text
        name = clean_term(found.id).text
        texts = [text for cut in _cut(found, format_) if (text := clean_term(cut, len(cut)).text)]
        reason = _fault(title, name, texts)
        if reason:
            _put_aside(aside, found, reason)
        else:
            yield found, title, name, texts


def _put_aside(aside: Aside, found: CollectedText, reason: str) -> None:
    aside.put(found.row, reason, {"id": found.id, "title": found.title, "text": found.text})


def _cut(found: CollectedText, format_: CollectionFormat) -> list[str]:
    return passages_of(found.text) if format_.gives_articles else [found.text]


def _fault(title: str, name: str, texts: list[str]) -> str | None:
    """Why a row cannot be used; None if it can."""
    if not title:
        return "title: a text was expected"
    if len(title) > LONGEST_TITLE:
        return f"title: at most {LONGEST_TITLE} characters were expected, not {len(title):,}"
    if not texts:
        return "text: is empty"
    n_words = max(len(text.split()) for text in texts)
    if n_words > LONGEST_PASSAGE:
        return f"text: a passage of at most {LONGEST_PASSAGE:,} words was expected, not {n_words:,}"
    return None if name else "id: a text was expected"


def _format(collection: Collection) -> CollectionFormat:
    found: CollectionFormat = load_format(COLLECTIONS, collection.format)
    return found
