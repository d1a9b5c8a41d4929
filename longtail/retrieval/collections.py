"""Passages of the study's collections: files of others, joined into lake table `passages`.

One pass over a dump gives passages, and its redirects and disambiguation pages: lake table `excluded_pages`.

A passage is about the entity that its file names. Where a file names none, a passage is about an entity if its title is
that of the entity's article. The label decides only for an entity whose article is unknown, and only if no other entity
has this label: a namesake's article would be taken for it otherwise.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.errors import LakeError, SourceError
from longtail.imports.datasets import entity_files_slice, find_file
from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.records import file_hashes
from longtail.imports.wiki import ExcludedPage
from longtail.parsing.line_files import RejectedRows
from longtail.parsing.terms import LONGEST_LABEL, clean_term
from longtail.retrieval.splitting import passages_beside_questions, passages_of
from longtail.storage.files import STAGING
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow, Streamed
from longtail.storage.lake_files import PART_ROWS
from longtail.study.backends import IMPORTED
from longtail.study.imports import COLLECTIONS, Collection, load_format, slice_of
from longtail.study.study import Study
from longtail.tables import TABLES

EXCLUDED_PAGES = "excluded_pages"
LONGEST_TITLE = 255
_SCHEMA = TABLES[EXCLUDED_PAGES].schema
AT_ONCE = 5_000
"""Rows whose repetitions are looked for together, and excluded pages that wait in memory."""


class ExcludedPages:
    """The pages of the collections that are being read, in their order.

    They wait in a nameless file, so that memory holds a few thousand of millions, and a killed writer leaves nothing.
    The table appears before the passages of the same pass.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._waiting: list[dict[str, Any]] = []
        self.clear()

    def clear(self) -> None:
        """Forget all pages. Errors: `LakeError` where no file can be made."""
        folder = self._lake.root / STAGING
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115 it is closed with its last reader
        except OSError as error:
            raise self._failure(error) from error
        self._stream = pa.ipc.new_stream(self._file, _SCHEMA)
        self._waiting.clear()

    def add(self, collection: str, page: ExcludedPage, rejected: RejectedRows) -> None:
        """Keep a page, its titles without control characters; one without a title of use is put aside.

        Errors: `LakeError` where the disk has no room.
        """
        title, target, section = (_clean(text or "") for text in (page.title, page.target, page.section))
        if not 1 <= len(title) <= LONGEST_TITLE:
            reason = f"title: 1 to {LONGEST_TITLE} characters were expected, not {len(title):,}"
            rejected.put(page.row, f"{page.kind}: {reason}", page.title)
            return
        self._waiting.append({
            "collection": collection, "page_number": page.row, "title": title, "kind": page.kind,
            "target_title": target or None, "target_section": section or None,
        })  # fmt: skip
        if len(self._waiting) == AT_ONCE:
            self._flush()

    def write(self, stamp: str) -> None:
        """Write the table. Errors: as `Lake.write`."""
        self._flush()
        self._stream.close()
        self._file.seek(0)
        with pa.ipc.open_stream(self._file) as batches:
            self._lake.write(EXCLUDED_PAGES, Streamed(_parts(batches)), fingerprint=stamp)
        self._file.close()

    def _flush(self) -> None:
        try:
            self._stream.write_batch(pa.RecordBatch.from_pylist(self._waiting, _SCHEMA))
        except OSError as error:
            raise self._failure(error) from error
        self._waiting.clear()

    def _failure(self, error: OSError) -> LakeError:
        folder = self._lake.root / STAGING
        return LakeError(f"{folder}: {EXCLUDED_PAGES} could not be written ({error.strerror or error})")


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of `PART_ROWS` rows; the last one may have fewer."""
    while some := list(islice(batches, PART_ROWS // AT_ONCE)):
        yield pa.Table.from_batches(some)


def write_beside(lake: Lake, passages: Outcome) -> Outcome:
    """The table as it was written with these passages; it is written without rows if they come from no collection."""
    written = lake.materialise(EXCLUDED_PAGES, passages.stamp.fingerprint, lambda: Computed([]))
    return replace(written, was_current=passages.was_current)


COLLECTED = "collection"
"""Column `source` of passages that come from a collection."""
POSITION_BITS, COLLECTION_BITS = 16, 56
_MISSING = frozenset({"nan", "none", "null"})
LONGEST_PASSAGE = 1_000  # words; DPR's have about 100, and a file cut at a quotation mark gives thousands
_MOST_ASIDE = 1_000  # rows of a kind that are kept of a file in quarantine
_COUNTED = ("passages", "linked to an entity", "known already", "rows rejected")


class FirstRows:
    """The row at which each text came first. A text is known by 8 bytes of its hash: among 21 million texts, the chance
    that any two different ones are taken for the same is about 10⁻⁵.

    Sorted arrays hold the hashes. Arrays of similar lengths are merged, so that there are few of them.
    """

    def __init__(self) -> None:
        self._sorted: list[tuple[np.ndarray, np.ndarray]] = []

    def of(self, texts: Sequence[str], rows: Sequence[int]) -> list[int]:
        """The first row of each text, which is its own row if the text is new."""
        digests = b"".join(
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts
        )
        keys, places, back = np.unique(
            np.frombuffer(digests, dtype=np.uint64), return_index=True, return_inverse=True
        )
        first = np.array(rows, dtype=np.int64)[places]
        is_new = np.ones(len(keys), dtype=bool)
        for known, known_rows in self._sorted:
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            is_known = known[at] == keys
            first[is_known] = known_rows[at[is_known]]
            is_new &= ~is_known
        if is_new.any():
            self._add(keys[is_new], first[is_new])
        rows_of_texts: list[int] = first[back].tolist()
        return rows_of_texts

    def _add(self, keys: np.ndarray, rows: np.ndarray) -> None:
        while self._sorted and len(self._sorted[-1][0]) < 2 * len(keys):
            other_keys, other_rows = self._sorted.pop()
            keys, rows = np.concatenate([other_keys, keys]), np.concatenate([other_rows, rows])
            order = np.argsort(keys, kind="stable")
            keys, rows = keys[order], rows[order]
        self._sorted.append((keys, rows))


@dataclass(frozen=True)
class CollectedPassage:
    """A passage of an `entry` in a file; `name` within its collection, `position` in its article."""

    entry: CollectedText
    name: str
    title: str
    position: int
    text: str

    def place(self, collection: int) -> int:
        """Its place among all passages, as one number."""
        position = self.position & (1 << POSITION_BITS) - 1
        return collection << COLLECTION_BITS | self.entry.row << POSITION_BITS | position

    def columns(self, collection: Collection) -> dict[str, Any]:
        """The row of lake table `passages`; its entity is the one that the file names, if it names one."""
        return {
            "passage_id": f"{collection.name}:{self.name}",
            "entity_id": clean_term(self.entry.entity_id or "").text or None,
            "title": self.title,
            "position": self.position,
            "text": self.text,
            "source": COLLECTED,
            "collection": collection.name,
            "collection_source": collection.source,
            "collection_date": collection.date,
            "licence": collection.licence,
            "section": self.entry.section,
            "revision": self.entry.revision,
            "url": self.entry.url,
            "revision_date": self.entry.date,
        }


def passages_in(collection: Collection, place: Path, rejected: RejectedRows) -> Iterator[CollectedPassage]:
    """The passages of a file.

    A section's title stands before the passage, as Atlas's own reader has it (facebookresearch/atlas, `src/index_io.py`,
    `load_passages`), but not in the title: that must stay the article's, which links a passage to an entity.
    """
    format_ = format_of(collection)
    positions: Counter[str] = Counter()
    for entry, title, entry_name, texts in _texts(format_, collection, place, rejected):
        for text in texts:
            position = positions[title]
            positions[title] += 1
            name = f"{title}-{position}" if format_.gives_articles else entry_name
            whole = f"{entry.section}: {text}" if entry.section else text
            yield CollectedPassage(entry, name, title, position, whole)


def _texts(
    format_: CollectionFormat, collection: Collection, place: Path, rejected: RejectedRows
) -> Iterator[tuple[CollectedText, str, str, list[str]]]:
    """(what the file says, title, id, texts) of the rows that can be used; of rows with the same id the first."""
    known = FirstRows()
    usable = _usable(format_, collection, place, rejected)
    while some := list(islice(usable, AT_ONCE)):
        rows = [entry.row for entry, *_ in some]
        firsts = rows if format_.gives_articles else known.of([name for _, _, name, _ in some], rows)
        for (entry, title, name, texts), first in zip(some, firsts, strict=True):
            if first == entry.row:
                yield entry, title, name, texts
            else:
                _put_aside(rejected, entry, f"id {name[:60]!r}: row {first} has it already; that row is kept")


def _usable(
    format_: CollectionFormat, collection: Collection, place: Path, rejected: RejectedRows
) -> Iterator[tuple[CollectedText, str, str, list[str]]]:
    for entry in format_.read(place, rejected, **dict(collection.options)):
        title, name = _clean(entry.title), _clean(entry.id)
        cut = passages_of(entry.text) if format_.gives_articles else [entry.text]
        texts = [text for text in map(_clean, cut) if _is_text(text)]
        reason = _fault(title, name, entry.text, texts)
        if reason:
            _put_aside(rejected, entry, reason)
        else:
            yield replace(entry, section=_clean(entry.section or "") or None), title, name, texts


def _clean(text: str) -> str:
    return clean_term(text, len(text)).text


def _is_text(text: str) -> bool:
    """Whether a person can read it: not invisible marks alone, nor what programs write for a missing value."""
    is_visible = any(char.isprintable() and not char.isspace() for char in text)
    return is_visible and text.lower() not in _MISSING


def _put_aside(rejected: RejectedRows, entry: CollectedText, reason: str) -> None:
    rejected.put(entry.row, reason, {"id": entry.id, "title": entry.title, "text": entry.text})


def _fault(title: str, name: str, text: str, texts: list[str]) -> str | None:
    """Why a row with this `text`, cut into `texts`, cannot be used; None if it can."""
    if not any(map(str.isprintable, title)):
        return "title: a text was expected"
    if len(title) > LONGEST_TITLE:
        return f"title: at most {LONGEST_TITLE} characters were expected, not {len(title):,}"
    if not texts:
        return "text: is a missing value" if text.strip().lower() in _MISSING else "text: is empty"
    n_words = max(len(text.split()) for text in texts)
    if n_words > LONGEST_PASSAGE:
        return f"text: a passage of at most {LONGEST_PASSAGE:,} words was expected, not {n_words:,}"
    if len(name) > LONGEST_LABEL:
        return f"id: at most {LONGEST_LABEL} characters were expected, not {len(name):,}"
    return None if name else "id: a text was expected"


def format_of(collection: Collection) -> CollectionFormat:
    format_: CollectionFormat = load_format(COLLECTIONS, collection.format)
    return format_


def collect_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `passages` from the study's collections, in their order, and from the texts beside questions; and
    before it, from the same pass, table `excluded_pages`.

    If several passages have the same title and text, the first is kept; the others are put aside. Errors: `SourceError`
    where a file is missing, cannot be read, or has no passage; `LakeError` without entities. A quick run keeps only
    passages about an entity of the lake: the dense index of all of them takes longer than all its other stages.
    """
    files = [
        [
            slice_of(collection),
            file_hashes(format_of(collection).files(find_file(collection.place, study), collection)),
        ]
        for collection in study.collections
    ]
    entities = [lake.content("entities")]
    if IMPORTED in lake.partitions("entities"):
        entities.append(lake.content("entities", IMPORTED))
    quick = ["quick"] if study.is_quick else []
    beside = entity_files_slice(study)
    stamp = fingerprint(COLLECTIONS, files, entities, code_version(__name__), *quick, *beside)
    if lake.current("passages", stamp) and not lake.current(EXCLUDED_PAGES, stamp):
        lake.discard("passages")  # only one pass over the files gives both
    return lake.materialise("passages", stamp, lambda: _join(study, lake, stamp, log))


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
            yield from self._count(self._all())
            return
        n_rows = yield from self._count(row for row in self._all() if row["entity_id"] in self.known_entities)
        if not n_rows:
            self.rejected.clear()
            self.left_out.clear()
            n_rows = yield from self._count(self._all())
        self.log.info("quick run: %d passages about an entity are searched, and no others", n_rows)

    def _count(self, rows: Iterable[dict[str, Any]]) -> Generator[dict[str, Any], None, int]:
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
            rejected = RejectedRows(place.name, most=_MOST_ASIDE)
            rejected.keep = partial(self.left_out.add, collection.name, rejected=rejected)
            counts[collection.name] = count = dict.fromkeys(_COUNTED, 0)
            for row in self._of(number, place, rejected, known, count):
                row["entity_id"] = row["entity_id"] or self.entity_of.get(row["title"])
                count["linked to an entity"] += row["entity_id"] is not None
                yield row
            self.rejected += rejected.list_rows()
            if not count["passages"] and not count["known already"]:
                why = f"; the first one: {rejected.rows[0].reason}" if rejected.rows else ""
                raise SourceError(
                    f"{place}: no row gives collection {collection.name} (format {collection.format}) a passage{why}"
                )
            count["rows rejected"] = rejected.n_rows - count["known already"]
            count |= {f"{what} left out": n for what, n in rejected.left_out.items()}
            self.log.info("%s: %s", collection.name, ", ".join(f"{n:,} {what}" for what, n in count.items()))
        yield from passages_beside_questions(self.study)

    def _of(
        self, number: int, place: Path, rejected: RejectedRows, known: FirstRows, count: dict[str, int]
    ) -> Iterator[dict[str, Any]]:
        """The passages of one collection without those that were there before, with the same title and text."""
        collection = self.study.collections[number]
        passages = passages_in(collection, place, rejected)
        while some := list(islice(passages, AT_ONCE)):
            places = [passage.place(number) for passage in some]
            texts = [f"{len(passage.title)} {passage.title}{passage.text}" for passage in some]
            for passage, own_place, first in zip(some, places, known.of(texts, places), strict=True):
                if first == own_place:
                    count["passages"] += 1
                    yield passage.columns(collection)
                else:
                    count["known already"] += 1
                    name = self.study.collections[first >> COLLECTION_BITS].name
                    row = (first & (1 << COLLECTION_BITS) - 1) >> POSITION_BITS
                    reason = f"kept once: row {row} of collection {name} has the same title and text"
                    rejected.put(passage.entry.row, reason, {"title": passage.title, "text": passage.text})


def _join(study: Study, lake: Lake, stamp: str, log: logging.Logger) -> Computed:
    columns = ["entity_id", "label", "article_title"]
    entities = lake.read_all("entities", columns).to_pylist()
    known = {entity["entity_id"] for entity in entities}
    joined = _Joined(study, entities_by_title(entities), known, ExcludedPages(lake), log)
    return Computed(Streamed.of("passages", joined.rows(stamp)), joined.rejected, joined.notes)
