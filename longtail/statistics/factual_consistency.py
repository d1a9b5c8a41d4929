"""How certain is a measure of factual consistency, or of a fine-tuned checkpoint? A bootstrap over the subjects of facts.

Every measure is a sum over facts divided by another sum over facts, but for the shares of patterns that are right for
some fact, which have no interval: they depend on the number of facts, and a resample has fewer different ones. A
resample draws as many subjects as the dataset has, with replacement, and keeps their facts and patterns together. Its
mean over relations has the relations that have a value. A bin of popularity has the facts of all relations together. All
models, methods and prompts share the draws of a dataset.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import (
    Values,
    draws,
    interval,
    n_deciding,
    reason_against,
    seed_of,
    sums_by_subject,
)

N_RESAMPLES = 1_000
_KEY = ("dataset", "prompt", "model", "method")
_TUNED_KEY = ("tuned_model", "step", "split")
_SUMS = ("numerator", "denominator")


def by_subject(key: Sequence[str], measures: str) -> str:
    """A query: for each key and measure the sums of each subject. `measures`: rows of facts with `subject` (a number from
    1 that the facts of a subject share) and `n_drawn` (how many subjects there are).
    """
    sums = ", ".join(f"sum({column} order by question_id) as {column}" for column in _SUMS)
    lists = ", ".join(f"list({column} order by subject) as {column}" for column in ("subject", *_SUMS))
    return (
        f"select {', '.join(key)}, measure, n_drawn, {lists} from "  # noqa: S608
        f"(select {', '.join(key)}, measure, n_drawn, subject, {sums} from ({measures}) group by all) "
        "group by all order by all"
    )


_FACTS = (
    "from int_fact_measures as facts inner join (select dataset, question_id, subject, "
    "max(subject) over (partition by dataset) as n_drawn from (select dataset, question_id, "
    "dense_rank() over (partition by dataset order by cluster_id) as subject from int_questions)) "
    "using (dataset, question_id)"
)
QUERIES = (
    by_subject((*_KEY, "relation", "bin"), f"select *, null::int as bin {_FACTS}"),
    by_subject(
        (*_KEY, "relation", "bin"),
        f"select * replace ('all' as relation), bins.bin::int as bin {_FACTS} inner join "  # noqa: S608
        "(select dataset, question_id, bin from int_question_bins where relation = 'all') as bins "
        "using (dataset, question_id)",
    ),
)
TUNED_QUERY = by_subject(
    (*_TUNED_KEY, "relation"),
    "select *, max(subject) over () as n_drawn from "
    "(select *, dense_rank() over (order by cluster_id) as subject from int_tuned_measures)",
)


def _schema(key: Sequence[str]) -> pa.Schema:
    return pa.schema([
        *((name, pa.int32() if name in ("bin", "step") else pa.string()) for name in (*key, "measure")),
        ("n_subjects", pa.int64()),
        ("n_resamples", pa.int32()),
        *((name, pa.float64()) for name in ("value_low", "value_high")),
        ("no_interval", pa.string()),
    ])  # fmt: skip


Row = Mapping[str, Any]


def bootstrap_facts(by_relation: pa.Table, by_bin: pa.Table, seed: int) -> pa.Table:
    """The rows of int_factual_consistency_intervals, from the facts of each measure by relation and by bin: `QUERIES`."""
    rows = [{**row, "bin": None} for row in add_means(by_relation.to_pylist(), _KEY, ("dataset",), seed)]
    binned = _resample(by_bin.to_pylist(), (*_KEY, "bin"), ("dataset",), seed)
    rows += [interval_row(row, (*_KEY, "bin"), values) for row, values in binned]
    return pa.Table.from_pylist(rows, schema=_schema((*_KEY, "relation", "bin")))


def bootstrap_checkpoints(by_relation: pa.Table, seed: int) -> pa.Table:
    """The rows of int_tuned_model_intervals (`TUNED_QUERY`); all checkpoints share the draws."""
    rows = list(add_means(by_relation.to_pylist(), _TUNED_KEY, (), seed))
    return pa.Table.from_pylist(rows, schema=_schema((*_TUNED_KEY, "relation")))


def add_means(
    rows: Sequence[Row], key: Sequence[str], drawn_by: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """Intervals of each measure by relation, and of its means over relations: relation `all`.

    `rows`: key, relation, measure, and the lists of subjects and both their sums; those of one key stand together. Rows
    with equal `drawn_by` share their resamples.
    """
    for _, rows_of_key in itertools.groupby(
        _resample(rows, key, drawn_by, seed), key=lambda pair: _of(pair[0], *key)
    ):
        resampled = list(rows_of_key)
        for row, values in [*resampled, *_means(resampled)]:
            yield interval_row(row, key, values)


def _of(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _resample(
    rows: Sequence[Row], key: Sequence[str], drawn_by: Sequence[str], seed: int
) -> Iterator[tuple[Row, Values]]:
    """Each row with its measure in each resample. Rows of one group of facts stand together."""
    for drawn_from, together in itertools.groupby(
        rows, key=lambda row: (*_of(row, *drawn_by), row["n_drawn"])
    ):
        rng = np.random.default_rng(seed_of(seed, map(str, drawn_from)))
        weights = draws(drawn_from[-1], N_RESAMPLES, rng)
        for _, rows_of_measure in itertools.groupby(
            together, key=lambda row: (_of(row, *key, "relation"), row["subject"])
        ):
            same = list(rows_of_measure)
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
        influence = {
            "subject": np.unique(subjects),
            "influence": sums_by_subject(influences, subjects) / len(together),
        }
        yield {**together[0][0], "relation": "all", **influence}, means


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
