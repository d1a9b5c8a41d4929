"""Longtail: when not to trust a language model. Five functions; nothing else is needed to use what a study found.

>>> import longtail
>>> study = longtail.load_study("study.yaml", limit=50)
>>> (study.name, study.limit, [model.name for model in study.models][:2])
('sandbox_limit_50', 50, ['reference_s', 'reference_m'])

`load_study`, `load_router` and `score` work in an install without Dagster, dbt and DuckDB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.errors import LongtailError

if TYPE_CHECKING:
    import duckdb

    from longtail.router.decisions import Router
    from longtail.scoring.match import Scores
    from longtail.study.study import Study

# Without this, the threads of torch and faiss wait by spinning: on a busy machine that takes ten times the processor
# seconds. Their libraries read it when they are loaded, so it is set before anything else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

__all__ = ["LongtailError", "load_router", "load_study", "open_warehouse", "run", "score"]


def load_study(path: str | Path, limit: int | None = None) -> Study:
    """Read and check a study file; with `limit`, of so many questions. Errors: `LongtailError`, which names the key."""
    from longtail.storage.home import in_project
    from longtail.study.file import limit_study
    from longtail.study.file import load_study as load

    study = load(in_project(Path(path)))
    return study if limit is None else limit_study(study, limit)


def load_router(path: str | Path) -> Router:
    """Load a published router; it needs the standard library alone. Errors: `RouterError`, a `LongtailError`."""
    from longtail.router.decisions import load_router as load

    return load(path)


def run(study: Study) -> Path:
    """Run a study, as `longtail run` does; return the folder of what it published. Errors: `LongtailError`."""
    limits = {"LONGTAIL_LIMIT": str(study.limit or ""), "LONGTAIL_QUICK": ""}
    command = [sys.executable, "-m", "longtail", "run", str(study.path)]
    if code := subprocess.run(command, env={**os.environ, **limits}, check=False).returncode:
        raise LongtailError(f"{study.path}: the run ended with exit code {code}; its last lines say why")
    return study.home.published


def open_warehouse(place: Study | str | Path) -> duckdb.DuckDBPyConnection:
    """Open what a study published, read-only: a study, its folder `published`, or the file `warehouse.duckdb`.

    `open_warehouse(study).sql("from fct_accuracy")` gives a relation; `.df()` makes pandas of it, `.pl()` polars and
    `.to_arrow_table()` Arrow. Errors: `LongtailError` if nothing is published there.
    """
    from longtail.warehouse.publication import connect_to_publication

    path = Path(place) if isinstance(place, (str, Path)) else place.home.published
    warehouse = connect_to_publication(path / "warehouse.duckdb" if path.is_dir() else path)
    warehouse.execute("set search_path = 'marts'")
    return warehouse


def score(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> list[Scores]:
    """Score each prediction against its gold answers by every rule of correctness. No study is needed.

    >>> [scores] = score(["It is Paris, I think."], [["Paris", "City of Paris"]])
    >>> (scores.is_correct, scores.is_exact_match, round(scores.token_f1, 2))
    (True, False, 0.33)

    Errors: `LongtailError` if there are more of one than of the other, one text stands where a list is needed, or
    something else where a text is needed.
    """
    from longtail.scoring.match import score_answer

    if isinstance(predictions, str) or any(isinstance(golds, str) for golds in answers):
        raise LongtailError("need a list of predictions, and a list of gold answers for each: got one text")
    if len(predictions) != len(answers):
        raise LongtailError(
            f"need one list of gold answers per prediction: got {len(predictions)} and {len(answers)}"
        )
    for text in chain(predictions, chain.from_iterable(answers)):
        if not isinstance(text, str):
            raise LongtailError(f"need texts as predictions and gold answers: got {text!r}")
    return [score_answer(prediction, golds) for prediction, golds in zip(predictions, answers, strict=True)]
