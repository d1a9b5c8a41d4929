"""How certain is a measure of factual consistency? A bootstrap over facts.

Every measure is a sum over facts divided by another sum over facts, but for those of PATTERNS_ANY_RIGHT, the share of
patterns that are right for some fact. A resample draws as many facts as the relation has, with replacement, and keeps a
fact's patterns together. Its mean over relations has the relations that have a value. A bin of popularity has the facts
of all relations together. All models, methods and prompts share the draws of a group of the same facts.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_project.core.progress import Progress
from dagster_project.core.statistics.resampling import Values, percentiles, resampled_ratios, seed_of
from dagster_project.core.statistics.statistic import Statistic

N_RESAMPLES = 1_000
FEWEST = 5
"""With fewer facts there is no interval: resamples of one fact would all be the same."""
PATTERNS_ANY_RIGHT = {"pattern_any_right": "has_fitting_article", "pattern_any_right_all_patterns": "true"}
"""The share of patterns that are right for some fact → the answers that it counts. The query gives one row per pattern
and its facts."""
_TABLE = "factual_consistency_intervals"
_KEY = ("dataset", "prompt", "model", "method")
_SUMS = ("numerator", "denominator")
_LISTS = ", ".join(f"list({one} order by question_id) as {one}" for one in _SUMS)
_BY_FACT = (
    f"select {', '.join(_KEY)}, relation, null::int as bin, measure, {_LISTS} "  # noqa: S608
    "from intermediate.int_fact_measures group by all"
)
_BY_PATTERN = " union all by name ".join(
    f"select {', '.join(_KEY)}, relation, null::int as bin, '{measure}' as measure, "  # noqa: S608
    "list(coalesce(answers.is_correct, false)::double order by question_id) as numerator, "
    "list(1::double) as denominator from intermediate.int_fact_agreement "
    f"inner join (select distinct {', '.join(_KEY)}, relation, paraphrase_id from intermediate.int_candidate_answers "
    f"where {asked}) using ({', '.join(_KEY)}, relation) left join "
    f"(from intermediate.int_candidate_answers where {asked}) as answers "
    f"using ({', '.join(_KEY)}, relation, question_id, paraphrase_id) "
    f"group by {', '.join(_KEY)}, relation, paraphrase_id"
    for measure, asked in PATTERNS_ANY_RIGHT.items()
)
_BY_RELATION = f"{_BY_FACT} union all by name {_BY_PATTERN} order by all"
_BY_BIN = (
    f"select {', '.join(f'facts.{one}' for one in _KEY)}, 'all' as relation, bins.bin::int as bin, measure, {_LISTS} "  # noqa: S608
    "from intermediate.int_fact_measures as facts inner join intermediate.int_question_bins as bins "
    "using (dataset, question_id) where bins.relation = 'all' group by all order by all"
)

Row = Mapping[str, Any]


def bootstrap_facts(
    tables: Sequence[pa.Table], seed: int, log: logging.Logger
) -> dict[str, list[dict[str, Any]]]:
    """The rows of lake table factual_consistency_intervals.

    `tables`: relations and measures, then bins of popularity and measures, each with its facts.
    """
    by_relation, by_bin = (table.to_pylist() for table in tables)
    found: list[dict[str, Any]] = []
    n = len(by_relation) + len(by_bin)
    with Progress(log, "bootstrap of factual consistency: groups and measures", n) as progress:
        found += [
            {**row, "bin": None}
            for row in with_means(by_relation, _KEY, ("dataset", "relation", "bin"), seed, progress)
        ]
        binned = _resampled(by_bin, (*_KEY, "bin"), ("dataset", "relation", "bin"), seed)
        found += [interval_row(row, (*_KEY, "bin"), values) for row, values in binned]
        progress.add(len(by_bin))
    return {_TABLE: found}


def with_means(
    rows: Sequence[Row], key: Sequence[str], drawn_by: Sequence[str], seed: int, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Intervals of each measure by relation, and of its means over relations: relation `all`.

    `rows`: key, relation, measure, and the lists of both sums by fact; those of one key stand together. Rows with equal
    `drawn_by` have equal facts, and share their resamples.
    """
    for _, own in itertools.groupby(rows, key=lambda row: _of(row, *key)):
        together = list(own)
        resampled = [*_shares_of_patterns(_resampled(together, key, drawn_by, seed))]
        for row, values in [*resampled, *_means(resampled)]:
            yield interval_row(row, key, values)
        progress.add(len(together))


def _of(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _resampled(
    rows: Sequence[Row], key: Sequence[str], drawn_by: Sequence[str], seed: int
) -> Iterator[tuple[Row, Values]]:
    """Each row with its measure in each resample. Rows of one group of facts stand together."""
    for _, own in itertools.groupby(rows, key=lambda row: _of(row, *key, "relation")):
        together = list(own)
        sums = [np.array([row[name] for row in together], dtype=float).T for name in _SUMS]
        drawn_from = seed_of(seed, map(str, _of(together[0], *drawn_by)))
        values = resampled_ratios(sums[0], sums[1], drawn_from, N_RESAMPLES)
        yield from ((row, values[:, at]) for at, row in enumerate(together))


def _shares_of_patterns(resampled: Iterable[tuple[Row, Values]]) -> Iterator[tuple[Row, Values]]:
    """The rows, those of a relation's patterns made one: the share of patterns that are right in each resample."""
    patterns: dict[tuple[Any, ...], list[tuple[Row, Values]]] = {}
    for row, values in resampled:
        if row["measure"] in PATTERNS_ANY_RIGHT:
            patterns.setdefault(_of(row, "relation", "measure"), []).append((row, values > 0))
        else:
            yield row, values
    for own in patterns.values():
        yield own[0][0], np.mean([is_right for _, is_right in own], axis=0)


def _means(resampled: Sequence[tuple[Row, Values]]) -> Iterator[tuple[Row, Values]]:
    """The means over the relations that have the measure, by measure."""
    by_measure: dict[str, list[tuple[Row, Values]]] = {}
    for row, values in resampled:
        if any(row["denominator"]):
            by_measure.setdefault(row["measure"], []).append((row, values))
    for together in by_measure.values():
        stacked = np.stack([values for _, values in together])
        n = (~np.isnan(stacked)).sum(axis=0)
        means = np.where(n > 0, np.nansum(stacked, axis=0) / np.maximum(n, 1), np.nan)
        yield {**together[0][0], "relation": "all"}, means


def interval_row(row: Row, names: Sequence[str], values: Values) -> dict[str, Any]:
    """The row of the lake: its key, and the percentiles of `values`, nan left out."""
    key = {name: row[name] for name in (*names, "relation", "measure")} | {"n_resamples": N_RESAMPLES}
    is_mean = row["relation"] == "all" and row.get("bin") is None
    if not is_mean and sum(one > 0 for one in row["denominator"]) < FEWEST:
        return {**key, "value_low": None, "value_high": None, "undefined": "fewer than five facts"}
    ends = percentiles(values)
    if ends is None:
        return {**key, "value_low": None, "value_high": None, "undefined": "too few resamples with a value"}
    return {**key, "value_low": ends[0], "value_high": ends[1], "undefined": None}


FACTUAL_CONSISTENCY = Statistic(
    "factual_consistency",
    tables=(_TABLE,),
    models=("int_fact_measures", "int_fact_agreement", "int_candidate_answers", "int_question_bins"),
    queries=(_BY_RELATION, _BY_BIN),
    compute=bootstrap_facts,
)
