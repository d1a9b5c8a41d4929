"""Passages of the study's collections: files of others, joined into lake table `passages`.

What belongs here: cutting articles, joining collections, and linking passages to entities by their titles. What does
not: the files' columns (one module per format in `imports`), and the study's keys (`study.imports`).

A passage is about an entity if its title is that of the entity's article. The label decides only for an entity whose
article is unknown, and only if no other entity has this label: a namesake's article would be taken for it otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.imports.facts import entity_files_slice
from dagster_project.core.imports.formats import CollectedText, CollectionFormat
from dagster_project.core.imports.places import find_file
from dagster_project.core.imports.records import Aside, file_hashes
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.retrieval.given_passages import given_passages
from dagster_project.core.retrieval.splitting import passages_of
from dagster_project.core.study.backends import IMPORTED
from dagster_project.core.study.imports import COLLECTIONS, Collection, load_format, slice_of
from dagster_project.core.study.study import Study
from dagster_project.core.terms import clean_term

COLLECTED = "collection"
"""Column `source` of passages that come from a collection."""
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
    """The passages so far."""

    entity_of: Mapping[str, str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    ids: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, collection: Collection, name: str, position: int, title: str, text: str) -> str | None:
        """Add a passage; return the id of an earlier one with this title and text, which is kept instead."""
        passage_id = f"{collection.name}:{name}"
        first = self.ids.setdefault((title, text), passage_id)
        if first != passage_id:
            return first
        self.rows.append({
            "passage_id": passage_id,
            "entity_id": self.entity_of.get(title),
            "title": title,
            "position": position,
            "text": text,
            "source": COLLECTED,
            "collection": collection.name,
            "collection_source": collection.source,
            "collection_date": collection.date,
            "licence": collection.licence,
        })  # fmt: skip
        return None


def _joined(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    columns = ["entity_id", "label", "article_title"]
    joined = _Joined(entities_by_title(lake.read_all("entities", columns).to_pylist()))
    aside, counts = [], {}
    for collection in study.collections:
        place = find_file(collection.place, study)
        own = Aside(place.name)
        counts[collection.name] = _add(joined, collection, place, own)
        aside += own.rows
        log.info(
            "%s: %s",
            collection.name,
            ", ".join(f"{n:,} {what}" for what, n in counts[collection.name].items()),
        )
    rows = joined.rows + given_passages(study)
    if study.is_quick:
        rows = [row for row in rows if row["entity_id"]] or rows
        log.info("quick run: %d passages about an entity are searched, and no others", len(rows))
    words = sum(len(row["text"].split()) for row in rows)
    return Computed(rows, aside, {"words_per_passage": round(words / len(rows), 1), "collections": counts})


def _add(joined: _Joined, collection: Collection, place: Path, aside: Aside) -> dict[str, int]:
    """Add the passages of one collection; return how many there are of what."""
    n_before, n_doubled = len(joined.rows), 0
    for row, name, position, title, text in _passages(collection, place, aside):
        first = joined.add(collection, name, position, title, text)
        if first:
            n_doubled += 1
            aside.put(
                row, f"kept once: passage {first} has the same title and text", {"title": title, "text": text}
            )
    own = joined.rows[n_before:]
    if not own and not n_doubled:
        why = f"; the first one: {aside.rows[0].reason}" if aside.rows else ""
        raise SourceError(
            f"{place}: no row gives collection {collection.name} (format {collection.format}) a passage{why}"
        )
    return {
        "passages": len(own),
        "linked to an entity": sum(row["entity_id"] is not None for row in own),
        "known already": n_doubled,
        "rows put aside": len(aside.rows) - n_doubled,
    }


def _passages(collection: Collection, place: Path, aside: Aside) -> Iterator[tuple[int, str, int, str, str]]:
    """(row, name within the collection, position in the article, title, text) of each passage."""
    format_ = _format(collection)
    rows_of_ids: dict[str, int] = {}
    positions: Counter[str] = Counter()
    for found in format_.read(place, aside):
        title = clean_term(found.title, len(found.title)).text
        name = clean_term(found.id).text
        texts = [text for cut in _cut(found, format_) if (text := clean_term(cut, len(cut)).text)]
        reason = _fault(title, name, texts)
        if (
            not reason
            and not format_.gives_articles
            and (first := rows_of_ids.setdefault(name, found.row)) != found.row
        ):
            reason = f"id {name[:60]!r}: row {first} has it already; that row is kept"
        if reason:
            aside.put(found.row, reason, {"id": found.id, "title": found.title, "text": found.text})
            continue
        for text in texts:
            position = positions[title]
            positions[title] += 1
            yield found.row, f"{title}-{position}" if format_.gives_articles else name, position, title, text


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
