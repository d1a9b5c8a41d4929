"""The tasks there are, one per generated lake table, in the order in which a model's tables are made.

And what a study asks of its models' backends for them, checked before anything is computed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from longtail.generation.backends.base import entry
from longtail.generation.engine.row_cache import DATABASE
from longtail.generation.engine.task import Task
from longtail.generation.tasks.answers import (
    Answers,
    GeneratedPassages,
    ParaphraseAnswers,
    SampledAnswers,
)
from longtail.generation.tasks.candidate_answers import CandidateAnswers
from longtail.generation.tasks.grounded import GroundedAnswers, GroundedGenerations
from longtail.needs import Need, check_package
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
