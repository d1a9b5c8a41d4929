"""The tasks there are, one per generated lake table, in the order in which a model's tables are made.

And what a study asks of its models' backends for them, checked before anything is computed, and how many answers are
right, told as soon as they are in the lake.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from longtail.generation.backends.base import entry
from longtail.generation.engine.row_cache import DATABASE
from longtail.generation.engine.task import Task
from longtail.generation.tasks.answers import Answers, GeneratedPassages, ParaphraseAnswers, SampledAnswers
from longtail.generation.tasks.candidate_answers import CandidateAnswers
from longtail.generation.tasks.grounded import GroundedAnswers, GroundedGenerations
from longtail.needs import Need, check_package
from longtail.scoring.intervals import share_interval
from longtail.storage.lake import Lake, Outcome
from longtail.storage.postgres import check_postgres
from longtail.study.models import Model
from longtail.study.study import Study

TASKS: dict[str, Task] = {
    task.table: task
    for task in (
        GeneratedPassages(),
        Answers(),
        ParaphraseAnswers(),
        SampledAnswers(),
        CandidateAnswers(),
        GroundedAnswers(),
        GroundedGenerations(),
    )
}
"""By lake table; add a task here."""
_MANY_EMPTY = 0.2


def needs_of_models(study: Study) -> Iterator[Need]:
    """Each model that answers, checked at a cost that does not depend on its size.

    A check raises `BackendError` where the backend is unknown or cannot do what the study asks, or where the model's
    path, key or package is missing.
    """
    if address := os.environ.get(DATABASE):
        yield Need(DATABASE, partial(_check_database, address))
    capabilities = sorted({task.capability for task in TASKS.values() if task.is_asked(study)})
    for i, model in enumerate(study.models):
        if model.generates:
            yield Need(f"models[{i}]", partial(_check_backend, model, capabilities))


def _check_database(address: str) -> None:
    check_package("psycopg", "[postgres]")
    check_postgres(address)


def _check_backend(model: Model, capabilities: Sequence[str]) -> None:
    for capability in capabilities:
        backend = entry(model, capability)
    backend.check_model(model)


def tell_accuracy(lake: Lake, outcome: Outcome, log: logging.Logger) -> list[dict[str, Any]]:
    """The accuracy of each dataset and prompt of answers, with its interval; none for other tables.

    A line of the log tells each that was written just now, and another one if many predictions are empty.
    """
    if outcome.table != Answers.table:
        return []
    columns = ["dataset", "prompt", "question_id", "is_correct", "prediction"]
    rows = lake.read(Answers.table, outcome.partition, columns)
    rows = rows.append_column("is_empty", pc.equal(pc.utf8_trim_whitespace(rows["prediction"]), ""))
    subjects = {
        (row["dataset"], row["question_id"]): row["subject_id"] or f"question {row['question_id']}"
        for row in lake.read("questions", columns=["dataset", "question_id", "subject_id"]).to_pylist()
    }
    counted = rows.group_by(["dataset", "prompt"]).aggregate(
        [("is_correct", "list"), ("question_id", "list"), ("is_empty", "sum")]
    )
    groups = sorted(zip(*(counted[name].to_pylist() for name in counted.column_names), strict=True))
    several = len({dataset for dataset, *_ in groups}) > 1
    accuracies = []
    for dataset, prompt, correct, question_ids, n_empty in groups:
        n, share = len(correct), float(np.mean(correct))
        ends = share_interval(
            correct,
            [subjects.get((dataset, question_id), f"question {question_id}") for question_id in question_ids],
        )
        names = {"partition": outcome.partition, "dataset": dataset, "prompt": prompt}
        low, high = ends or (None, None)
        accuracies.append({**names, "accuracy": share, "low": low, "high": high, "n": n})
        if not outcome.was_current:
            shown = [*outcome.partition.split("|"), prompt, *([dataset] if several else [])]
            name = " · ".join(shown)
            log.info(
                "%s: accuracy %.1f %%%s of n = %s (provisional; the mart decides)",
                name, 100 * share, f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" if ends else "", f"{n:,}",
            )  # fmt: skip
            if n_empty > _MANY_EMPTY * n:
                log.warning(
                    "%s: %s of %s predictions are empty; often the model begins with a line break: key shots of "
                    "the prompt shows it how an answer looks, key format asks in other words (docs/study_file.md)",
                    name, f"{n_empty:,}", f"{n:,}",
                )  # fmt: skip
    return accuracies
