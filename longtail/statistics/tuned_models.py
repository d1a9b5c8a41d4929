"""How certain are the measures of a fine-tuned checkpoint? A bootstrap over the subjects of its facts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from longtail.progress import Progress
from longtail.statistics.factual_consistency import by_subject, with_means
from longtail.statistics.statistic import Statistic

_TABLE = "tuned_model_intervals"
_KEY = ("tuned_model", "step", "split")
_BY_RELATION = by_subject(
    (*_KEY, "relation"),
    "select *, max(subject) over () as n_drawn from "
    "(select *, dense_rank() over (order by cluster_id) as subject from intermediate.int_tuned_measures)",
)


def bootstrap_checkpoints(
    tables: Sequence[pa.Table], seed: int, log: logging.Logger
) -> dict[str, list[dict[str, Any]]]:
    """The rows of lake table tuned_model_intervals; all checkpoints share the draws."""
    rows = tables[0].to_pylist()
    with Progress(log, "bootstrap of tuned models: groups and measures", len(rows)) as progress:
        return {_TABLE: [*with_means(rows, _KEY, (), seed, progress)]}


TUNED_MODELS = Statistic(
    "tuned_model_intervals",
    tables=(_TABLE,),
    models=("int_tuned_measures",),
    queries=(_BY_RELATION,),
    compute=bootstrap_checkpoints,
)
