"""What `longtail generate` does: asks a study's models, on a machine that needs neither Dagster nor dbt.

The study's home holds what `longtail run --prepare` made (questions, passages), and is copied here and back. The tables
are those of a run: `longtail run` takes them as finished.
What belongs here: the order of a model's tables, and what is said of them. What does not: generating (`core.generation`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

from dagster_project.core.errors import LongtailError, single_line
from dagster_project.core.generation.engine.partition import generate
from dagster_project.core.generation.engine.session import ModelSession
from dagster_project.core.generation.provisional import tell_accuracy
from dagster_project.core.generation.tasks.capabilities import needs_of_models
from dagster_project.core.generation.tasks.registry import TASKS
from dagster_project.core.storage.disk import advised
from dagster_project.core.storage.home import study_file
from dagster_project.core.storage.lake import Lake
from dagster_project.core.storage.ownership import only_one
from dagster_project.core.study.file import load_study
from dagster_project.core.study.models import Model
from dagster_project.core.study.study import Study
from dagster_project.core.tables import TABLES

RUN_ID = "longtail generate"
"""What the rows name as their run."""
_LOG = logging.getLogger("longtail")


def main() -> int:
    """Generate what is missing; return the exit code. A model that fails is one line on standard error."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        study = load_study(study_file())
        for need in needs_of_models(study):
            need.check()
        with only_one(study.home.locks / "run.lock", f"another run works on study {study.name}; wait for it"):
            failures = list(_of_all_models(study))
    except KeyboardInterrupt:
        print("stopped; finished results are kept, the same command goes on from here", file=sys.stderr)
        return 130
    except (LongtailError, OSError) as error:
        failures = [_line(error)]
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    if not failures:
        print(f"All is generated. Copy {study.home.root} back; a run there finishes the study.")
    return 1 if failures else 0


def _of_all_models(study: Study) -> Iterator[str]:
    """Every model after the other; yields why one is not finished."""
    lake = Lake(study.home.lake)
    with ModelSession(_LOG) as session:
        for model in study.models:
            try:
                _of_model(study, lake, model, session)
            except (LongtailError, OSError) as error:
                yield f"{model.name}: {_line(error)}"


def _of_model(study: Study, lake: Lake, model: Model, session: ModelSession) -> None:
    for table, task in TASKS.items():
        if not model.generates or not task.is_asked(study):
            continue
        methods = study.methods if "method" in TABLES[table].partitioned_by else (None,)
        for method in methods:
            outcome = generate(
                task, study, lake, model.name, method, session=session, run_id=RUN_ID, log=_LOG
            )
            state = "was finished before" if outcome.was_current else f"{outcome.stamp.n_rows:,} rows"
            _LOG.info("%s %s: %s", table, "|".join(filter(None, (model.name, method))), state)
            tell_accuracy(lake, outcome, _LOG)


def _line(error: Exception) -> str:
    return advised(single_line(str(error)))
