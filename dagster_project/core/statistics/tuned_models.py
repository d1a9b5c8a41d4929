"""How certain are the measures of a fine-tuned checkpoint? A bootstrap over the facts that it is judged on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dagster_project.core.progress import Progress
from dagster_project.core.statistics.factual_consistency import with_means
from dagster_project.core.statistics.statistic import Statistic

_TABLE = "tuned_model_intervals"
_KEY = ("tuned_model", "step", "split")
_BY_RELATION = (
    f"select {', '.join(_KEY)}, relation, measure, list(numerator order by question_id) as numerator, "  # noqa: S608
    "list(denominator order by question_id) as denominator from intermediate.int_tuned_measures group by all order by all"
)


def bootstrap_checkpoints(
    tables: Sequence[pa.Table], seed: int, log: logging.Logger
) -> dict[str, list[dict[str, Any]]]:
    """The rows of lake table tuned_model_intervals; all checkpoints share the draws of a relation."""
    rows = tables[0].to_pylist()
    with Progress(log, "bootstrap of tuned models: groups and measures", len(rows)) as progress:
        return {_TABLE: [*with_means(rows, _KEY, ("split", "relation"), seed, progress)]}


TUNED_MODELS = Statistic(
    "tuned_model_intervals",
    tables=(_TABLE,),
    models=("int_tuned_measures",),
    queries=(_BY_RELATION,),
    compute=bootstrap_checkpoints,
)
