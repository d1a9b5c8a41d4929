"""Thresholds of adaptive retrieval: on popularity, for every pair of methods, split, relation and search.

The fit is not SQL, because a running sum for each of 100 splits needs a sort per split there, and only one array
operation here.

The best candidate is the one with most right answers on the fitting rows. A step from one candidate to the next
retrieves the rows between them. It gains the right answers with retrieval there and loses the right answers without.
The threshold is the candidate with the greatest running sum of these gains, or the lowest of several equal ones. If no
sum is above 0, the threshold is never.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.resampling import Values

IN_SAMPLE = -1
"""The split with every row: its thresholds are in-sample."""

SCHEMA = pa.schema([
    *((name, pa.int32()) for name in ("pair_id", "split")),
    *((name, pa.string()) for name in ("relation", "search")),
    ("threshold_popularity", pa.float64()),
    *((name, pa.int64()) for name in ("gain", "n_retrieved", "n", "n_parametric", "n_retrieval")),
])  # fmt: skip

NO_RELATION = ""
_READ = ("popularity", "parametric", "retrieval")


@dataclass(frozen=True)
class PairRows:
    """The questions of one pair of methods: arrays of equal length, one element per question.

    `relation` is empty if a question has none. `parametric` and `retrieval` are 1 if that answer is right. `training`
    (splits × questions) says which questions a split fits on. `edges`: the candidates of binned10 for each relation and
    for `all`, ascending.
    """

    relation: Values
    popularity: Values
    parametric: Values
    retrieval: Values
    training: Values
    edges: dict[str, Values]


@dataclass(frozen=True)
class Fitted:
    """Thresholds of one (relation or all, search): arrays with one element per split. If `n` is 0, nothing was fitted.

    `n_retrieved`: the number of fitted rows below the threshold; 0 means never, `n` means always.
    """

    relation: str
    search: str
    threshold_popularity: Values
    gain: Values
    n_retrieved: Values
    n: Values
    n_parametric: Values
    n_retrieval: Values


def fit_thresholds(rows: pa.Table, splits: pa.Table, edges: pa.Table) -> pa.Table:
    """All thresholds, one row per (pair_id, split, relation, search), in `SCHEMA`.

    `rows`: pair_id, dataset, question_id, relation, popularity, parametric, retrieval. `splits`: dataset, split,
    question_id, is_training, every question of `rows` in every split. `edges`: pair_id, relation,
    threshold_popularity.
    """
    tables = [SCHEMA.empty_table()]
    for dataset in pc.unique(rows["dataset"]).to_pylist():
        questions, numbers, training = _training(splits.filter(pc.field("dataset") == dataset))
        mine = rows.filter(pc.field("dataset") == dataset)
        for pair_id in pc.unique(mine["pair_id"]).to_pylist():
            own = mine.filter(pc.field("pair_id") == pair_id)
            asked = pc.index_in(own["question_id"], value_set=questions).to_numpy()
            relation = own["relation"].fill_null(NO_RELATION).to_numpy()
            popularity, parametric, retrieval = (own[name].to_numpy() for name in _READ)
            candidates = _edges(edges.filter(pc.field("pair_id") == pair_id))
            pair = PairRows(relation, popularity, parametric, retrieval, training[:, asked], candidates)
            tables += [_table(pair_id, numbers, fitted) for fitted in fit_pair(pair)]
    return pa.concat_tables(tables)


def _training(splits: pa.Table) -> tuple[pa.Array, Values, Values]:
    """The questions of a dataset, the numbers of its splits, and splits × questions: whether the split fits on it."""
    questions = pc.unique(splits["question_id"])
    column = pc.index_in(splits["question_id"], value_set=questions).to_numpy()
    split = splits["split"].to_numpy()
    numbers = np.concatenate([[IN_SAMPLE], np.unique(split)])
    training = np.zeros((len(numbers), len(questions)), dtype=bool)
    training[0] = True
    training[np.searchsorted(numbers, split), column] = splits["is_training"].to_numpy()
    return questions, numbers, training


def _edges(edges: pa.Table) -> dict[str, Values]:
    relation, candidate = edges["relation"].to_numpy(), edges["threshold_popularity"].to_numpy()
    return {name: np.sort(candidate[relation == name]) for name in set(relation)}


def _table(pair_id: int, numbers: Values, fitted: Fitted) -> pa.Table:
    kept = fitted.n > 0
    n = int(kept.sum())
    columns = [
        np.full(n, pair_id), numbers[kept], pa.repeat(fitted.relation, n), pa.repeat(fitted.search, n),
        *(getattr(fitted, name)[kept] for name in SCHEMA.names[4:]),
    ]  # fmt: skip
    arrays = [pa.array(values).cast(field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def fit_pair(pair: PairRows) -> Iterator[Fitted]:
    """The thresholds of one pair: for each relation and for all, by each search.

    Questions without a relation have no threshold of their own; they count in the one for all.
    """
    order = np.lexsort((pair.popularity, pair.relation))
    names, starts = np.unique(pair.relation[order], return_index=True)
    for name, rows in zip(names, np.split(order, starts[1:]), strict=True):
        if name != NO_RELATION:
            yield from _fit(pair, str(name), rows)
    yield from _fit(pair, "all", np.argsort(pair.popularity, kind="stable"))


def _fit(pair: PairRows, relation: str, rows: Values) -> Iterator[Fitted]:
    """Both searches over `rows`, which are in ascending order of popularity."""
    popularity, training = pair.popularity[rows], pair.training[:, rows]
    parametric, retrieval = pair.parametric[rows], pair.retrieval[rows]
    counts = (
        training.sum(axis=1),
        training @ parametric.astype(np.int64),
        training @ retrieval.astype(np.int64),
    )
    gained = np.cumsum(training * (retrieval - parametric).astype(np.int32), axis=1, dtype=np.int32)
    last = np.flatnonzero(np.append(popularity[1:] != popularity[:-1], True))
    gain, level = _best(gained[:, last])
    fitted_next = _next_fitted(training, popularity, last)
    never, best = fitted_next[:, 0], np.take_along_axis(fitted_next, level[:, None] + 1, axis=1)[:, 0]
    threshold = np.where(gain > 0, best, never)
    yield Fitted(relation, "exact", threshold, gain, _below(threshold, training, popularity), *counts)
    edges = pair.edges[relation]
    step = edges[np.searchsorted(edges, popularity, side="right")]
    last = np.flatnonzero(np.append(step[1:] != step[:-1], True))
    gain, level = _best(gained[:, last])
    threshold = np.where(gain > 0, step[last][level], edges[0])
    yield Fitted(relation, "binned10", threshold, gain, _below(threshold, training, popularity), *counts)


def _below(threshold: Values, training: Values, popularity: Values) -> Values:
    """By split: the number of fitted rows below its threshold."""
    return np.asarray(np.count_nonzero(training & (popularity < threshold[:, None]), axis=1))


def _best(gained: Values) -> tuple[Values, Values]:
    """By split: the greatest gain (at least 0), and the first level that reaches it."""
    level = gained.argmax(axis=1)
    best = np.take_along_axis(gained, level[:, None], axis=1)[:, 0]
    return np.maximum(best, 0).astype(np.int64), level


def _next_fitted(training: Values, popularity: Values, last: Values) -> Values:
    """Splits × (levels + 1): the lowest popularity of the fitting rows from a level upwards; infinity if there is none.

    A level is a distinct popularity, and `last` has the last row of each level.
    """
    fitted = np.logical_or.reduceat(training, np.append(0, last[:-1] + 1), axis=1)
    found = np.full((len(training), len(last) + 1), np.inf)
    found[:, :-1] = np.where(fitted, popularity[last], np.inf)
    return np.minimum.accumulate(found[:, ::-1], axis=1)[:, ::-1]
