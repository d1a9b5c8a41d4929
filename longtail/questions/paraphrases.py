"""Paraphrases of questions: templates filled with subjects, or the wordings of imported files (SPEC §1); and the patterns
and candidates of imported cloze queries (SPEC §8).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from longtail.imports.datasets import file_slice, import_paraphrases, read_questions, wordings
from longtail.imports.format import ImportedDataset, ImportedPattern
from longtail.questions.build import imports_slice
from longtail.relations import cloze
from longtail.relations.cloze import article_before_object, prefix_of
from longtail.relations.relation import SUBJECT, Relation, by_name, content_of, fill
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.study import Study

PATTERNS, CANDIDATES = "patterns", "candidates"
Wording = tuple[int, str, str]
"""The number of a wording, its template, and the wording."""


def build_paraphrases(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `paraphrases`: paraphrase 0 is the question itself, then come its relation's templates, filled.

    A dataset with imported paraphrases has those instead of our templates, and one of cloze queries has its patterns. A
    question without a subject, or of a relation without our templates, has paraphrase 0 alone.
    """
    stamp = fingerprint(
        lake.content("questions"),
        imports_slice(study, lake),
        content_of(study.relations, "name", "template", "wordings"),
        code_version(__name__),
    )

    def compute() -> Computed:
        columns = ["dataset", "question_id", "relation", "subject", "question"]
        imports = {d.name: import_paraphrases(study, d, log) for d in study.datasets if d.paraphrases}
        imported = {dataset.name for dataset in study.datasets_of_files}
        patterns = _patterns(study)
        relations = by_name(study.relations)

        def word(question: Mapping[str, Any]) -> Iterable[Wording]:
            name, relation = question["dataset"], relations.get(question["relation"])
            if name in imports:
                return wordings(question, imports[name].wordings.get(question["question_id"], {}))
            if (name, question["relation"]) in patterns:
                return _clozes(question, patterns[name, question["relation"]])
            if name in imported:
                return wordings(question, _fill_wordings(question, relation))
            return _paraphrases(question, relations[question["relation"]])

        rows = [
            {
                "dataset": question["dataset"],
                "question_id": question["question_id"],
                "paraphrase_id": number,
                "template": template,
                "paraphrase": wording,
            }
            for question in lake.read("questions", columns=columns).to_pylist()
            for number, template, wording in word(question)
        ]
        log.info("paraphrases: %d", len(rows))
        rejected = [row for paraphrases in imports.values() for row in paraphrases.rejected]
        return Computed(rows, rejected, {name: paraphrases.notes for name, paraphrases in imports.items()})

    return lake.materialise("paraphrases", stamp, compute)


def _patterns(study: Study) -> dict[tuple[str, str], list[ImportedPattern]]:
    """(dataset, relation) → the patterns of its cloze queries."""
    return {
        (dataset.name, relation): patterns
        for dataset in study.cloze_datasets
        for relation, patterns in read_questions(study, dataset).patterns.items()
    }


def _clozes(question: Mapping[str, Any], patterns: Sequence[ImportedPattern]) -> Iterator[Wording]:
    """The wordings of a cloze query: its relation's patterns with its subject."""
    for number, pattern in enumerate(patterns):
        filled = cloze.fill_subject(pattern.text, question["subject"])
        yield number, pattern.text.replace(cloze.SUBJECT, SUBJECT), filled


def _fill_wordings(question: Mapping[str, Any], relation: Relation | None) -> dict[int, str]:
    """The wordings of the question's relation, filled, by their number; none without a subject or such a relation."""
    templates = relation.wordings if relation and question["subject"] else ()
    return {number: fill(template, question["subject"]) for number, template in enumerate(templates, 1)}


def _paraphrases(question: Mapping[str, Any], relation: Relation) -> Iterator[Wording]:
    """The wordings of a question made from a fact: the relation's own template first, then the others."""
    for number, template in enumerate((relation.template, *relation.wordings)):
        yield number, template, fill(template, question["subject"])


def describe_cloze_queries(study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """Write lake tables patterns and candidates; they are empty without a dataset of cloze queries.

    Errors: `SourceError` where a file is missing or holds nothing that can be used.
    """
    datasets = study.cloze_datasets
    files = [[dataset.name, dataset.relations, file_slice(study, dataset)] for dataset in datasets]
    stamp = fingerprint(files, code_version(__name__))

    @functools.cache
    def contents() -> dict[str, ImportedDataset]:
        return {dataset.name: read_questions(study, dataset) for dataset in datasets}

    return [
        lake.materialise(table, fingerprint(table, stamp), lambda of=rows_of: Computed(of(contents())))  # type: ignore[misc]
        for table, rows_of in ((PATTERNS, _pattern_rows), (CANDIDATES, _candidate_rows))
    ]


def _pattern_rows(contents: dict[str, ImportedDataset]) -> list[dict[str, Any]]:
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
        for dataset, content in contents.items()
        for relation, patterns in content.patterns.items()
        for number, pattern in enumerate(patterns)
    ]


def _candidate_rows(contents: dict[str, ImportedDataset]) -> list[dict[str, Any]]:
    return [
        {"dataset": dataset, "relation": relation, "candidate": candidate}
        for dataset, content in contents.items()
        for relation, candidates in content.candidates.items()
        for candidate in candidates
    ]
