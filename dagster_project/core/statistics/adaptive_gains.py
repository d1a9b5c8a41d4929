"""How sure is the gain of adaptive retrieval? A bootstrap over questions that fits thresholds anew each time.

What belongs here: lake table adaptive_gains (SPEC §6). What does not: thresholds and accuracies, which
are dbt models; candidates of search binned10 are read from dbt too, so that each number has one definition.

The gain here is in-sample: accuracy under thresholds fitted on the same questions, minus that of the better fixed
method. It is never negative and flatters itself; fct_adaptive_accuracy takes the spread of its resamples for the
interval of the held-out gain, and centres it there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dagster_project.core.lake import Computed, Lake, Outcome, code_version, content_hash, fingerprint
from dagster_project.core.statistics.builds import read_build, seed_of
from dagster_project.core.study import Study
from dagster_project.core.threads import thread_count

N_RESAMPLES = 1_000
MODELS_READ = ("int_method_pairs", "int_adaptive_rows", "int_adaptive_edges")
_CHUNK = 100
_PAIR = ("dataset", "prompt", "model", "parametric_method", "retrieval_method")
_ROWS = (
    "select pair_id, relation, popularity, parametric, retrieval, count(*) as n "
    "from intermediate.int_adaptive_rows group by all order by all"
)
_EDGES = "select pair_id, relation, threshold from intermediate.int_adaptive_edges order by all"
_PAIRS = f"select pair_id, {', '.join(_PAIR)} from intermediate.int_method_pairs order by pair_id"  # noqa: S608

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """The questions of one pair of methods, aggregated: arrays of one length, a cell each.

    A cell is a (relation, popularity, parametric right, retrieval right) that occurs; `n` counts its
    questions. `binned_step` is the lowest candidate of binned10 above the popularity, by threshold scope.
    """

    relation: npt.NDArray[Any]
    popularity: Floats
    parametric: Ints
    retrieval: Ints
    n: Ints
    binned_step: dict[str, Floats]


@dataclass(frozen=True)
class Fit:
    """One way to fit thresholds: cells in the order of their popularity within groups that share a threshold.

    `ends` are the positions (in that order) behind which a threshold may lie; `groups` the first of each
    group in `ends`; `starts` the first cell of each group.
    """

    order: Ints
    ends: Ints
    groups: Ints
    starts: Ints


def bootstrap_adaptive_gains(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Compute lake table adaptive_gains from the first pass of the build, which must have ended.

    Errors: `LakeError` where the build is missing, in use, or lacks the models that are read.
    """
    tables = read_build(study, (_PAIRS, _ROWS, _EDGES))
    inputs = fingerprint(
        *(content_hash(table) for table in tables), study.seed, N_RESAMPLES, code_version("statistics")
    )

    def compute() -> Computed:
        return Computed(list(_gains(tables, study.seed, log)))

    return lake.materialise("adaptive_gains", inputs, compute)


def _gains(tables: tuple[Any, ...], seed: int, log: logging.Logger) -> Iterator[dict[str, Any]]:
    """The rows of all pairs, in their order; pairs are resampled side by side, each with a seed of its own."""
    pairs = tables[0].to_pylist()
    rows, edges = ({name: t[name].to_numpy() for name in t.column_names} for t in tables[1:])

    def resample(pair: dict[str, Any]) -> list[dict[str, Any]]:
        key = {name: pair[name] for name in _PAIR}
        return list(_gains_of(key, _cells(rows, edges, pair["pair_id"]), seed_of(seed, key.values())))

    with ThreadPoolExecutor(thread_count()) as pool:
        for position, (pair, found) in enumerate(zip(pairs, pool.map(resample, pairs), strict=True), start=1):
            names = " ".join(pair[name] for name in _PAIR)
            log.info(
                "bootstrap %d of %d: %s, %d questions", position, len(pairs), names, found[0]["n_questions"]
            )
            yield from found


def _gains_of(key: dict[str, str], cells: Cells, seed: int) -> Iterator[dict[str, Any]]:
    n_questions = int(cells.n.sum())
    for (search, scope), gain, resampled in bootstrap_pair(cells, seed):
        low, high = np.quantile(resampled, [0.025, 0.975]) if n_questions else (None, None)
        mean = float(resampled.mean()) if n_questions else None
        yield {
            **key, "search": search, "threshold_scope": scope, "n_questions": n_questions,
            "n_resamples": N_RESAMPLES,
            "gain_in_sample": gain, "gain_mean": mean, "gain_low": low, "gain_high": high,
        }  # fmt: skip


def _cells(rows: dict[str, npt.NDArray[Any]], edges: dict[str, npt.NDArray[Any]], pair_id: int) -> Cells:
    mine = rows["pair_id"] == pair_id
    relation, popularity = rows["relation"][mine], rows["popularity"][mine].astype(float)
    candidates = {
        name: edges["threshold"][(edges["pair_id"] == pair_id) & (edges["relation"] == name)]
        for name in {"all", *relation}
    }
    own = np.empty(len(popularity))
    for name in set(relation):
        of = relation == name
        own[of] = candidates[name][np.searchsorted(candidates[name], popularity[of], side="right")]
    overall = candidates["all"][np.searchsorted(candidates["all"], popularity, side="right")]
    parametric, retrieval, n = (
        rows[name][mine].astype(np.int64) for name in ("parametric", "retrieval", "n")
    )
    binned_step = {"per_relation": own, "all": overall}
    return Cells(relation, popularity, parametric, retrieval, n, binned_step)


def bootstrap_pair(
    cells: Cells, seed: int, n_resamples: int = N_RESAMPLES
) -> Iterator[tuple[tuple[str, str], float | None, Floats]]:
    """For each (search, scope): the gain of the sample, and the gains of the resamples.

    Questions are drawn with replacement: the numbers drawn from the cells are multinomial. Without questions
    the gain is None and there are no resamples.
    """
    fits = {
        (search, scope): _fit(cells, search, scope)
        for search in ("exact", "binned10")
        for scope in ("per_relation", "all")
    }
    if not len(cells.n):
        yield from ((name, None, np.empty(0)) for name in fits)
        return
    rng = np.random.default_rng(seed)
    total = int(cells.n.sum())
    draws: dict[tuple[str, str], list[Floats]] = {name: [] for name in fits}
    for size in _chunks(n_resamples):
        weights = rng.multinomial(total, cells.n / total, size=size)
        for name, fit in fits.items():
            draws[name].append(_fitted_gains(cells, fit, weights))
    for name, fit in fits.items():
        yield name, float(_fitted_gains(cells, fit, cells.n[None, :])[0]), np.concatenate(draws[name])


def _fit(cells: Cells, search: str, scope: str) -> Fit:
    group = cells.relation if scope == "per_relation" else np.full(len(cells.n), "all")
    step = cells.popularity if search == "exact" else cells.binned_step[scope]
    order = np.lexsort((cells.popularity, group))
    new_group = _changes(group[order])
    ends = np.flatnonzero(np.append((_changes(step[order]) | new_group)[1:], True))
    starts = np.flatnonzero(new_group)
    return Fit(order, ends, np.searchsorted(ends, starts), starts)


def _changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before; true at the first."""
    changed = np.ones(len(values), dtype=bool)
    changed[1:] = values[1:] != values[:-1]
    return changed


def _fitted_gains(cells: Cells, fit: Fit, weights: Ints) -> Floats:
    """Gain of the best thresholds for each row of `weights` (resamples × cells: questions drawn of each)."""
    parametric, retrieval = weights @ cells.parametric, weights @ cells.retrieval
    gained = np.cumsum((weights * (cells.retrieval - cells.parametric))[:, fit.order], axis=1)
    before = np.where(fit.starts > 0, gained[:, fit.starts - 1], 0)
    best = np.maximum.reduceat(gained[:, fit.ends], fit.groups, axis=1) - before
    adaptive = parametric + np.maximum(best, 0).sum(axis=1)
    return np.asarray((adaptive - np.maximum(parametric, retrieval)) / weights.sum(axis=1), dtype=float)


def _chunks(n: int) -> Iterator[int]:
    for start in range(0, n, _CHUNK):
        yield min(_CHUNK, n - start)
