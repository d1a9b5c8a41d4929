"""Questions, built from the lake's facts or read from imported files (SPEC §1), and which of them a dataset asks; their
paraphrases; and the patterns and candidates of imported cloze queries (SPEC §8).

A question needs no subject and no relation, since an imported file may give neither. Both are null then.

A dataset's keys choose in this order: `first_rows` takes the first questions of the file, and `ids` those that a file of
ids names. Then at most `max_questions_per_relation` are drawn from each of the `relations`, and from these at most
`max_questions` in all. A draw is a function of (seed, dataset, question_id) alone, so a larger limit keeps the questions
of a smaller one; key `drawn_as` gives the draws of another dataset.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import LakeError, SourceError
from longtail.imports.datasets import PARTITION as IMPORTED_PARTITION
from longtail.imports.datasets import (
    file_slice,
    find_file,
    import_paraphrases,
    import_questions,
    read_questions,
    select_questions,
    wordings,
)
from longtail.imports.format import ImportedDataset, ImportedPattern
from longtail.imports.records import file_hashes, read_lines
from longtail.relations import cloze
from longtail.relations.cloze import article_before_object, prefix_of
from longtail.relations.relation import SOURCE_SET, SUBJECT, Relation, by_name, content_of, fill, relation_set
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.study import Study
from longtail.wikimedia.selected_facts import asked_entities, sample_content, selected_facts

_SHOWN = 3
_LONGEST = 60
_WHOLE = "all relations"
PATTERNS, CANDIDATES = "patterns", "candidates"
Wording = tuple[int, str, str]
"""The number of a wording, its template, and the wording."""
Question = Mapping[str, Any]


@dataclass
class _Built:
    """Questions by relation, the facts that were put aside, and how many objects had no label."""

    questions: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    quarantined: list[QuarantinedRow] = field(default_factory=list)
    n_objects_without_label: int = 0


def build_questions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `questions`: one question per (subject, relation) of the source's facts, and those of files.

    Errors: `LakeError` where no question can be made from the facts, `SourceError` where a file has none to ask.
    """
    stamp = fingerprint(
        choice_slice(study),
        content_of(study.relations, "name", "property_id", "template"),
        lake.content("triples"),
        lake.content("entities"),
        imports_slice(study, lake),
        code_version(__name__),
        *sample_content(study, lake),
    )

    def compute() -> Computed:
        asked = asked_entities(study, lake)
        only = None if asked is None else pc.field("entity_id").isin(asked)
        return make_questions(
            selected_facts(study, lake, ["subject_id", "property_id", "object_id"]),
            lake.read("entities", columns=["entity_id", "label", "aliases"], only=only),
            study.datasets_of_source,
            ((dataset, import_questions(study, dataset, lake, log)) for dataset in study.datasets_of_files),
            Choice.of(study),
            log,
        )

    return lake.materialise("questions", stamp, compute)


def make_questions(
    facts: pa.Table,
    entities: pa.Table,
    datasets: Sequence[Dataset],
    files: Iterable[tuple[Dataset, ImportedDataset]],
    choice: Choice,
    log: logging.Logger,
) -> Computed:
    """The rows of `questions`: those of `datasets` from facts, and those of `files`, chosen by the datasets' keys.

    `facts`: subject_id, property_id, object_id. `entities`: entity_id, label, aliases. Errors: as `build_questions`.
    """
    wanted = {name for dataset in datasets for name in dataset.relations}
    built = _build([relation for relation in choice.relations if relation.name in wanted], facts, entities)
    rows: list[dict[str, Any]] = []
    notes: dict[str, Any] = {"objects_without_label": built.n_objects_without_label} if wanted else {}
    for dataset in datasets:
        candidates = [question for relation in dataset.relations for question in built.questions[relation]]
        asked, unknown = choose_questions(choice, dataset, candidates, log)
        rows += _dataset_rows(dataset, len(candidates), asked, log)
        built.quarantined += unknown
    if not rows and datasets:
        raise LakeError(
            f"{choice.study_file}: no question can be asked: the lake has no fact of its datasets' relations with "
            f"labelled subject and object ({len(built.quarantined)} rejected); check the source"
        )
    for dataset, content in files:
        usable, refused = select_questions(content.questions.values())
        asked, unknown = choose_questions(choice, dataset, usable, log)
        rows += _dataset_rows(dataset, len(content.questions), asked, log)
        notes[dataset.name] = {**content.notes, **_counts(len(content.questions), asked)}
        built.quarantined += [*content.rejected, *refused, *unknown]
    place_of = relation_order(choice.relations)
    rows.sort(key=lambda row: (row["dataset"], *place_of(row["relation"]), row["question_id"]))
    log.info("questions: %d, rejected: %d", len(rows), len(built.quarantined))
    return Computed(rows, built.quarantined, notes)


def one_line(text: str) -> str:
    """`text` in one line, stripped: line breaks become spaces. Questions and answers are one line each."""
    return " ".join(text.splitlines()).strip()


def gold_answers(labels_and_aliases: Iterable[str]) -> list[str]:
    """The distinct answers in their order, stripped. Empty ones are left out."""
    return list(dict.fromkeys(answer for text in labels_and_aliases if (answer := one_line(text))))


def _dataset_rows(
    dataset: Dataset, n_there: int, questions: Sequence[Mapping[str, Any]], log: logging.Logger
) -> list[dict[str, Any]]:
    log.info("%s: %d questions, %d of them asked", dataset.name, n_there, len(questions))
    return [{"dataset": dataset.name, **question} for question in questions]


def _counts(n_in_file: int, asked: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many questions of a file are not asked, and how many of those asked lack a subject or a relation."""
    lacking = {name: sum(row[name] is None for row in asked) for name in ("subject_id", "relation")}
    missing = {f"without_{name.removesuffix('_id')}": n for name, n in lacking.items() if n}
    return {"not_asked": n_in_file - len(asked), **missing}


def imports_slice(study: Study, lake: Lake) -> list[Any]:
    """What decides the rows of imported files: the files, and the entities that questions are linked to."""
    if not study.datasets_of_files:
        return []
    files = [[dataset.name, file_slice(study, dataset)] for dataset in study.datasets_of_files]
    named = (
        [lake.content("entities", IMPORTED_PARTITION)]
        if IMPORTED_PARTITION in lake.partitions("entities")
        else []
    )
    return [*files, *named]


def _build(relations: Iterable[Relation], facts: pa.Table, entities: pa.Table) -> _Built:
    terms = {row["entity_id"]: (one_line(row["label"]), row["aliases"]) for row in entities.to_pylist()}
    objects: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in facts.to_pylist():
        objects[row["property_id"], row["subject_id"]].add(row["object_id"])
    by_property = {relation.property_id: relation for relation in relations}
    built = _Built()
    for (property_id, subject_id), object_ids in sorted(objects.items()):
        relation = by_property.get(property_id)
        if relation is None:
            continue
        known = [o for o in sorted(object_ids) if o in terms and terms[o][0]]
        built.n_objects_without_label += len(object_ids) - len(known)
        question_id = f"{subject_id}-{property_id}"
        subject, aliases = terms.get(subject_id, ("", ()))
        if not subject or not known:
            reason = "no object has an English label, so there is no gold answer"
            raw = json.dumps({"subject_id": subject_id, "object_ids": sorted(object_ids)})
            built.quarantined.append(
                QuarantinedRow(question_id, reason if subject else "the subject has no English label", raw)
            )
            continue
        built.questions[relation.name].append({
            "question_id": question_id,
            "relation": relation.name,
            "property_id": property_id,
            "subject_id": subject_id,
            "subject": subject,
            "subject_aliases": list(aliases),
            "question": relation.question(subject),
            "object_ids": known,
            "objects": [terms[o][0] for o in known],
            "gold_answers": gold_answers(text for o in known for text in (terms[o][0], *terms[o][1])),
        })  # fmt: skip
    return built


@dataclass(frozen=True)
class Choice:
    """What a study's choice needs beside the datasets: the `seed` of draws, each dataset's file of ids with its distinct
    ids, the path of the study file, for messages, and the relations that the study knows."""

    seed: int
    ids: Mapping[str, tuple[Path, Collection[str]]]
    study_file: Path
    relations: tuple[Relation, ...] = field(default_factory=lambda: relation_set(SOURCE_SET))

    @classmethod
    def of(cls, study: Study) -> Choice:
        """Errors: `SourceError` where a file of ids cannot be read."""
        paths = {dataset.name: find_file(dataset.ids, study) for dataset in study.datasets if dataset.ids}
        ids = {name: (path, _read_ids(path)) for name, path in paths.items()}
        return cls(study.seed, ids, study.path, study.relations)


def choose_questions(
    choice: Choice, dataset: Dataset, questions: Iterable[Question], log: logging.Logger
) -> tuple[list[Question], list[QuarantinedRow]]:
    """The questions that the dataset asks, of `questions` in their file's order; ids of none of them are put aside.

    A dataset that names no relations asks about all. Questions without a relation are drawn like those of one relation.
    Errors: `SourceError` where the file of ids names no question, or a file has no question to ask.
    """
    there = list(questions)
    wanted, rejected = _choose_ids(choice, dataset, there, log)
    by_relation: dict[str | None, list[Question]] = defaultdict(list)
    for question in islice(there, dataset.first_rows):
        if wanted is None or question["question_id"] in wanted:
            by_relation[question["relation"]].append(question)
    known = sorted(by_relation, key=relation_order(choice.relations))
    limit, drawn_as = dataset.max_questions_per_relation, dataset.drawn_as or dataset.name
    asked = [
        question
        for relation in dataset.relations or known
        for question in draw(by_relation[relation], limit, choice.seed, drawn_as)
    ]
    if not asked and dataset.imported:
        names = ", ".join("questions without a relation" if name is None else name for name in known)
        among = " among those that first_rows and ids leave" if dataset.first_rows or dataset.ids else ""
        raise SourceError(
            f"{choice.study_file}: dataset {dataset.name}: its file has no question of"
            f" {', '.join(dataset.relations) or 'any relation'}{among}; it has: {names or 'none'}"
        )
    return draw(asked, dataset.max_questions, choice.seed, drawn_as, _WHOLE), rejected


def choice_slice(study: Study) -> list[Any]:
    """What decides the choice, for a fingerprint. The seed counts only where something is drawn."""
    limits = [
        [d.name, d.relations, d.first_rows, d.max_questions_per_relation, d.max_questions, d.drawn_as]
        for d in study.datasets
    ]
    ids = [file_hashes([find_file(d.ids, study)])[0][1] if d.ids else None for d in study.datasets]
    is_drawn = any(d.max_questions_per_relation or d.max_questions for d in study.datasets)
    return [limits, ids, study.seed if is_drawn else None]


def draw(
    rows: Iterable[Question], limit: int | None, seed: int, dataset: str, *purpose: str
) -> list[Question]:
    """The `limit` rows with the smallest hash of (seed, dataset, question_id). Their order does not matter.

    A draw for another `purpose` is independent of this one.
    """
    if limit is None:
        return list(rows)

    def place(row: Question) -> tuple[str, str]:
        key = json.dumps([seed, dataset, row["question_id"], *purpose])
        return hashlib.sha256(key.encode()).hexdigest(), row["question_id"]

    return sorted(rows, key=place)[:limit]


def relation_order(relations: Sequence[Relation]) -> Callable[[str | None], tuple[int, str]]:
    """The key that sorts names of relations: `relations` in their order, then others by name, then None."""
    places = {relation.name: place for place, relation in enumerate(relations)}

    def key(name: str | None) -> tuple[int, str]:
        return (len(places) + 1, "") if name is None else (places.get(name, len(places)), name)

    return key


def _read_ids(path: Path) -> Collection[str]:
    """The distinct ids of a file of ids, in its order: each a line, or the key id of an object in a line of JSON.

    Errors: `SourceError`."""
    ids: dict[str, None] = {}
    for line in filter(None, map(str.strip, read_lines(path))):
        if line[0] == "{":
            try:
                ids[str(json.loads(line)["id"])] = None
            except (ValueError, KeyError, RecursionError):
                shown = line[:_LONGEST]
                raise SourceError(f"{path}: an object with key id was expected, not {shown}") from None
        elif line[0] != "#":
            ids[line] = None
    return ids


def _choose_ids(
    choice: Choice, dataset: Dataset, questions: Sequence[Question], log: logging.Logger
) -> tuple[frozenset[str] | None, list[QuarantinedRow]]:
    """The ids of the dataset's file of ids (None without one), and those that no question has."""
    if dataset.ids is None:
        return None, []
    path, listed = choice.ids[dataset.name]
    known = {question["question_id"] for question in questions}
    unknown = [name for name in listed if name not in known]
    if not unknown and listed:
        return frozenset(listed), []
    said = (
        f"dataset {dataset.name}: {len(unknown):,} of {len(listed):,} ids in {path} are of no question:"
        f" {', '.join(name[:_LONGEST] for name in unknown[:_SHOWN])}"
    )
    if len(unknown) == len(listed):
        raise SourceError(
            f"{choice.study_file}: {said if listed else f'dataset {dataset.name}: {path} holds no id'}"
        )
    log.warning("%s; they go to quarantine", said)
    reason = "key ids: no question of the dataset has this id"
    return frozenset(listed), [QuarantinedRow(f"{path.name} {name}"[:200], reason, name) for name in unknown]


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
        patterns = {
            (dataset.name, relation): patterns
            for dataset in study.cloze_datasets
            for relation, patterns in read_questions(study, dataset).patterns.items()
        }
        relations = by_name(study.relations)

        def word(question: Mapping[str, Any]) -> Iterable[Wording]:
            name, relation = question["dataset"], relations.get(question["relation"])
            if name in imports:
                return wordings(question, imports[name].wordings.get(question["question_id"], {}))
            if (name, question["relation"]) in patterns:
                return _clozes(question, patterns[name, question["relation"]])
            if name in imported:
                templates = relation.wordings if relation and question["subject"] else ()
                filled = {n: fill(template, question["subject"]) for n, template in enumerate(templates, 1)}
                return wordings(question, filled)
            made_by = relations[question["relation"]]
            templates = (made_by.template, *made_by.wordings)
            return [
                (n, template, fill(template, question["subject"])) for n, template in enumerate(templates)
            ]

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


def _clozes(question: Mapping[str, Any], patterns: Sequence[ImportedPattern]) -> Iterator[Wording]:
    """The wordings of a cloze query: its relation's patterns with its subject."""
    for number, pattern in enumerate(patterns):
        filled = cloze.fill_subject(pattern.text, question["subject"])
        yield number, pattern.text.replace(cloze.SUBJECT, SUBJECT), filled


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
