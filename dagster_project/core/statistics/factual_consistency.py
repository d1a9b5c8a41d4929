"""How certain is a measure of factual consistency? A bootstrap over facts.

What belongs here: lake table factual_consistency_intervals (SPEC §8): percentile intervals. What does not: the measures
themselves and what a fact adds to them, which are dbt models (fct_factual_consistency, int_fact_measures).

Every measure is a sum over facts divided by another sum over facts. A resample draws as many facts as the relation has,
with replacement, and keeps a fact's patterns together. Its mean over relations has the relations that have a value. All
models, methods and prompts share the draws of a relation of the same facts.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dagster_project.core.progress import Progress
from dagster_project.core.statistics.resampling import draws, seed_of
from dagster_project.core.statistics.statistic import Statistic

N_RESAMPLES = 1_000
LEAST_DEFINED = 0.95
"""Below this share of resamples with a value there is no interval: the others would be no fair selection."""
_TABLE = "factual_consistency_intervals"
_KEY = ("dataset", "prompt", "model", "method")
_SUMS = ("numerator", "denominator")
_QUERY = (
    f"select {', '.join(_KEY)}, relation, measure, "  # noqa: S608
    f"{', '.join(f'list({one} order by question_id) as {one}' for one in _SUMS)} "
    "from intermediate.int_fact_measures group by all order by all"
)

Values = npt.NDArray[Any]


def bootstrap_facts(
    tables: Sequence[pa.Table], seed: int, log: logging.Logger
) -> dict[str, list[dict[str, Any]]]:
    """The rows of lake table factual_consistency_intervals. `tables`: relations and measures, each with its facts."""

    def group(row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(row[name] for name in _KEY)

    rows = tables[0].to_pylist()
    found: list[dict[str, Any]] = []
    with Progress(log, "bootstrap of factual consistency: relations and measures", len(rows)) as progress:
        for key, own in itertools.groupby(rows, key=group):
            together = list(own)
            found += [{**dict(zip(_KEY, key, strict=True)), **row} for row in _intervals(together, seed)]
            progress.add(len(together))
    return {_TABLE: found}


def _intervals(rows: Sequence[Mapping[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    """One row per relation and measure of one group, then those of `all`."""
    resampled: dict[str, list[Values]] = {}
    for relation, own in itertools.groupby(rows, key=lambda row: row["relation"]):
        together = list(own)
        sums = [np.array([row[name] for row in together], dtype=float).T for name in _SUMS]
        values = resampled_ratios(*sums, seed_of(seed, [together[0]["dataset"], relation]))
        for at, row in enumerate(together):
            yield _row(relation, row["measure"], values[:, at])
            if any(row["denominator"]):
                resampled.setdefault(row["measure"], []).append(values[:, at])
    for measure, of_relations in sorted(resampled.items()):
        stacked = np.stack(of_relations)
        n = (~np.isnan(stacked)).sum(axis=0)
        means = np.where(n > 0, np.nansum(stacked, axis=0) / np.maximum(n, 1), np.nan)
        yield _row("all", measure, means)


def resampled_ratios(
    numerators: Values, denominators: Values, seed: int, n_resamples: int = N_RESAMPLES
) -> Values:
    """The ratio of sums in each resample of facts, resamples × measures; nan where the sum below the line is 0.

    `numerators` and `denominators`: facts × measures.
    """
    weights = draws(len(numerators), n_resamples, np.random.default_rng(seed)).astype(float)
    above, below = weights @ numerators, weights @ denominators
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _row(relation: str, measure: str, values: Values) -> dict[str, Any]:
    defined = values[~np.isnan(values)]
    row = {"relation": relation, "measure": measure, "n_resamples": N_RESAMPLES}
    if len(defined) < LEAST_DEFINED * len(values):
        return {**row, "value_low": None, "value_high": None, "undefined": "too few resamples with a value"}
    low, high = np.quantile(defined, [0.025, 0.975])
    return {**row, "value_low": float(low), "value_high": float(high), "undefined": None}


FACTUAL_CONSISTENCY = Statistic(
    "factual_consistency",
    tables=(_TABLE,),
    models=("int_fact_measures",),
    queries=(_QUERY,),
    compute=bootstrap_facts,
)
