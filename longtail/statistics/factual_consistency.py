"""How certain is a measure of factual consistency? A bootstrap over the subjects of facts.

Every measure is a sum over facts divided by another sum over facts, but for the shares of patterns that are right for
some fact, which have no interval: they depend on the number of facts, and a resample has fewer different ones. A
resample draws as many subjects as the dataset has, with replacement, and keeps their facts and patterns together. Its
mean over relations has the relations that have a value. A bin of popularity has the facts of all relations together. All
models, methods and prompts share the draws of a dataset.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.progress import Progress
from longtail.statistics.resampling import (
    Values,
    draws,
    interval,
    n_deciding,
    reason_against,
    seed_of,
    sums_by_subject,
)
from longtail.statistics.statistic import Statistic

N_RESAMPLES = 1_000
_TABLE = "factual_consistency_intervals"
_KEY = ("dataset", "prompt", "model", "method")
_SUMS = ("numerator", "denominator")


def by_subject(key: Sequence[str], measures: str) -> str:
    """A query: for each key and measure the sums of each subject. `measures`: rows of facts with `subject` (a number from
    1 that the facts of a subject share) and `n_drawn` (how many subjects there are).
    """
    sums = ", ".join(f"sum({one} order by question_id) as {one}" for one in _SUMS)
    lists = ", ".join(f"list({one} order by subject) as {one}" for one in ("subject", *_SUMS))
    return (
        f"select {', '.join(key)}, measure, n_drawn, {lists} from "  # noqa: S608
        f"(select {', '.join(key)}, measure, n_drawn, subject, {sums} from ({measures}) group by all) "
        "group by all order by all"
    )


_FACTS = (
    "from intermediate.int_fact_measures as facts inner join (select dataset, question_id, subject, "
    "max(subject) over (partition by dataset) as n_drawn from (select dataset, question_id, "
    "dense_rank() over (partition by dataset order by cluster_id) as subject from intermediate.int_questions)) "
    "using (dataset, question_id)"
)
_BY_RELATION = by_subject((*_KEY, "relation", "bin"), f"select *, null::int as bin {_FACTS}")
_BY_BIN = by_subject(
    (*_KEY, "relation", "bin"),
    f"select * replace ('all' as relation), bins.bin::int as bin {_FACTS} inner join "  # noqa: S608
    "(select dataset, question_id, bin from intermediate.int_question_bins where relation = 'all') as bins "
    "using (dataset, question_id)",
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
        means = with_means(by_relation, _KEY, ("dataset",), seed, progress)
        found += [{**row, "bin": None} for row in means]
        binned = _resampled(by_bin, (*_KEY, "bin"), ("dataset",), seed)
        found += [interval_row(row, (*_KEY, "bin"), values) for row, values in binned]
        progress.add(len(by_bin))
    return {_TABLE: found}


def with_means(
    rows: Sequence[Row], key: Sequence[str], drawn_by: Sequence[str], seed: int, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Intervals of each measure by relation, and of its means over relations: relation `all`.

    `rows`: key, relation, measure, and the lists of subjects and both their sums; those of one key stand together. Rows
    with equal `drawn_by` share their resamples.
    """
    for _, own in itertools.groupby(_resampled(rows, key, drawn_by, seed), key=lambda one: _of(one[0], *key)):
        resampled = list(own)
        for row, values in [*resampled, *_means(resampled)]:
            yield interval_row(row, key, values)
        progress.add(len(resampled))


def _of(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _resampled(
    rows: Sequence[Row], key: Sequence[str], drawn_by: Sequence[str], seed: int
) -> Iterator[tuple[Row, Values]]:
    """Each row with its measure in each resample. Rows of one group of facts stand together."""
    for drawn_from, together in itertools.groupby(
        rows, key=lambda row: (*_of(row, *drawn_by), row["n_drawn"])
    ):
        rng = np.random.default_rng(seed_of(seed, map(str, drawn_from)))
        weights = draws(drawn_from[-1], N_RESAMPLES, rng)
        for _, own in itertools.groupby(
            together, key=lambda row: (_of(row, *key, "relation"), row["subject"])
        ):
            same = list(own)
            drawn = weights[:, np.array(same[0]["subject"]) - 1].astype(float)
            above, below = (drawn @ np.array([row[name] for row in same], dtype=float).T for name in _SUMS)
            values = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
            yield from ((row, values[:, at]) for at, row in enumerate(same))


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
        subjects, influences = map(
            np.concatenate, zip(*(_influence(row) for row, _ in together), strict=True)
        )
        own = {
            "subject": np.unique(subjects),
            "influence": sums_by_subject(influences, subjects) / len(together),
        }
        yield {**together[0][0], "relation": "all", **own}, means


def _influence(row: Row) -> tuple[Values, Values]:
    """The subjects that the measure counts, and by how much each moves it."""
    if "influence" in row:
        return row["subject"], row["influence"]
    subject, above, below = (np.array(row[name]) for name in ("subject", *_SUMS))
    counts = below > 0
    total = max(below.sum(), 1)
    return subject[counts], ((above - below * above.sum() / total) / total)[counts]


def interval_row(row: Row, names: Sequence[str], values: Values) -> dict[str, Any]:
    """The row of the lake: its key, and the interval of `values`."""
    subjects, influence = _influence(row)
    low, high, reason = interval(values, reason_against(len(subjects)), float(n_deciding(influence)))
    key = {name: row[name] for name in (*names, "relation", "measure")}
    return {
        **key, "n_subjects": len(subjects), "n_resamples": N_RESAMPLES, "value_low": low, "value_high": high,
        "no_interval": reason,
    }  # fmt: skip


FACTUAL_CONSISTENCY = Statistic(
    "factual_consistency",
    tables=(_TABLE,),
    models=("int_fact_measures", "int_questions", "int_question_bins"),
    queries=(_BY_RELATION, _BY_BIN),
    compute=bootstrap_facts,
)
