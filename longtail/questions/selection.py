"""Which of a dataset's questions are asked: its keys first_rows, ids, relations and the two limits, in this order.

`first_rows` takes the first questions of the file, and `ids` those that a file of ids names. Then at most
`max_questions_per_relation` are drawn from each of the `relations`, and from these at most `max_questions` in all. A
draw is a function of (seed, dataset, question_id) alone, so a larger limit keeps the questions of a smaller one; key
`drawn_as` gives the draws of another dataset.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.data_files import find_file
from longtail.imports.records import file_hashes, read_lines
from longtail.relations.relation import SOURCE_SET, Relation, relation_set
from longtail.storage.lake import QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.study import Study

_SHOWN = 3
_LONGEST = 60
_WHOLE = "all relations"

Question = Mapping[str, Any]


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
        ids = {name: (path, _listed(path)) for name, path in paths.items()}
        return cls(study.seed, ids, study.path, study.relations)


def chosen_questions(
    choice: Choice, dataset: Dataset, questions: Iterable[Question], log: logging.Logger
) -> tuple[list[Question], list[QuarantinedRow]]:
    """The questions that the dataset asks, of `questions` in their file's order; ids of none of them are put aside.

    A dataset that names no relations asks about all. Questions without a relation are drawn like those of one relation.
    Errors: `SourceError` where the file of ids names no question, or a file has no question to ask.
    """
    there = list(questions)
    wanted, rejected = _wanted(choice, dataset, there, log)
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


def _listed(path: Path) -> Collection[str]:
    """The distinct ids of a file of ids, in its order."""
    lines = (line for text in read_lines(path) if (line := text.strip()) and line[0] != "#")
    return dict.fromkeys(_id_of(path, line) if line[0] == "{" else line for line in lines)


def _wanted(
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


def _id_of(path: Path, line: str) -> str:
    """The id of an object in a line of JSON. Errors: `SourceError`."""
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, RecursionError):
        raise SourceError(f"{path}: an object with key id was expected, not {line[:_LONGEST]}") from None
