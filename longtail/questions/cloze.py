"""The patterns and candidates of imported cloze queries (SPEC §8)."""

from __future__ import annotations

import functools
import logging
from typing import Any

from longtail.imports.datasets import file_slice, read_questions
from longtail.imports.format import ImportedDataset
from longtail.relations.cloze import article_before_object, prefix_of
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.study import Study

PATTERNS, CANDIDATES = "patterns", "candidates"


def describe_cloze_queries(study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """Write lake tables patterns and candidates; they are empty without a dataset of cloze queries.

    Errors: `SourceError` where a file is missing or holds nothing that can be used.
    """
    datasets = study.cloze_datasets
    files = [[dataset.name, dataset.relations, file_slice(study, dataset)] for dataset in datasets]
    stamp = fingerprint(files, code_version(__name__))

    @functools.cache
    def found() -> dict[str, ImportedDataset]:
        return {dataset.name: read_questions(study, dataset) for dataset in datasets}

    return [
        lake.materialise(table, fingerprint(table, stamp), lambda of=rows_of: Computed(of(found())))  # type: ignore[misc]
        for table, rows_of in ((PATTERNS, _pattern_rows), (CANDIDATES, _candidate_rows))
    ]


def _pattern_rows(found: dict[str, ImportedDataset]) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset,
            "relation": relation,
            "paraphrase_id": number,
            "pattern": pattern.text,
            "lemma": pattern.lemma,
            "extended_lemma": pattern.extended_lemma,
            "tense": pattern.tense,
            "article": article_before_object(pattern.text),
            "ends_in_object": prefix_of(pattern.text) is not None,
            "changes": [content.changes.get((relation, pattern.text, other.text)) for other in patterns],
        }
        for dataset, content in found.items()
        for relation, patterns in content.patterns.items()
        for number, pattern in enumerate(patterns)
    ]


def _candidate_rows(found: dict[str, ImportedDataset]) -> list[dict[str, Any]]:
    return [
        {"dataset": dataset, "relation": relation, "candidate": candidate}
        for dataset, content in found.items()
        for relation, candidates in content.candidates.items()
        for candidate in candidates
    ]
