"""A fifth generated table, as a developer adds one: one lake table, one task; this one scores candidates.

Also run by tests as a process that gets killed: python toy_scores.py <as small_study.py>, with table toy_scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import small_study

from longtail.generation.backends.base import Scored
from longtail.generation.engine.task import Plan, Scope, Score, Task
from longtail.generation.prompts.build import read_questions
from longtail.generation.tasks.questions import Group, QuestionItem, decisive_keys
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Outcome
from longtail.study.backends import SCORE
from longtail.study.models import Model
from longtail.study.study import Study
from longtail.tables.generation import ACCOUNTS
from longtail.tables.schema import DATASET, MODEL, QUESTION_ID, Table, column

TABLE = Table(
    "toy_scores",
    "One row per (dataset, question, model).",
    (
        DATASET,
        QUESTION_ID,
        MODEL,
        column("candidates", pa.list_(pa.string()), "answers to choose from"),
        column("scores", pa.list_(pa.float64()), "their log-likelihoods"),
        column("has_answer", pa.bool_(), "the likeliest one is right"),
        column("prompt_hash", pa.string(), "SHA-256 of the exact prompt text"),
        *ACCOUNTS,
    ),
    partitioned_by=("model",),
)


class ToyScores(Task):
    """Which of its relation's answers does the model find likeliest?"""

    table = TABLE.name
    keys = ("dataset", "question_id")
    capability = SCORE

    def is_asked(self, study: Study) -> bool:
        return True

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        return decisive_keys(scope.study, ["Q: {question} A:"])

    def plan(self, scope: Scope) -> Plan[QuestionItem]:
        by_relation: dict[str, set[str]] = {}
        questions = [(d, q) for d, some in read_questions(scope.study, scope.lake).items() for q in some]
        for _, question in questions:
            by_relation.setdefault(question.relation, set()).add(f" {question.answer}")
        groups = {
            (dataset, name): Group(dataset, None, "Q: {question} A:", Score(tuple(sorted(candidates))))
            for dataset in {dataset for dataset, _ in questions}
            for name, candidates in by_relation.items()
        }
        return Plan([QuestionItem(groups[dataset, q.relation], q) for dataset, q in questions])

    def row(self, model: Model, item: QuestionItem, part: int, result: Scored) -> Mapping[str, Any]:
        candidates = item.request.candidates
        scores = [score.log_likelihood for score in result.scores]
        best = candidates[scores.index(max(scores))]
        return {
            "candidates": candidates, "scores": scores,
            "has_answer": best.strip() in item.question.gold_answers,
        }  # fmt: skip


def score(study: Study) -> Outcome:
    """Partition `tiny` of toy_scores."""
    return small_study.made(study, TASKS[TABLE.name])
