"""An arena of policies: how often each retrieves, what it is right for and costs, and how near it comes to the oracle.

Thresholds decide the test questions of each split, fitted on its training questions. Every question counts once: by the
share of the splits testing it in which it gets a passage. So all policies of a pair are compared on the same questions,
decisions of others on those that they decide. Intervals draw whole subjects again (a question without one stands alone);
thresholds are not fitted again. p is that of random signs of the subjects' differences.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_project.core.statistics.resampling import draws, in_parallel, percentiles, seed_of
from dagster_project.core.statistics.signal_fit import Values
from dagster_project.core.statistics.signal_policies import (
    ALL,
    ALWAYS,
    FIXED_POLICIES,
    NEVER,
    POPULARITY,
    decisions,
    thresholds,
)
from dagster_project.core.statistics.signal_questions import (
    KEY,
    N_SPLITS,
    SPLITS,
    Pair,
    asked_of,
    groups_of,
    rows_of,
    scored_splits,
    signal_cost,
    training_of,
    undefined_signals,
)
from dagster_project.core.statistics.statistic import Rows, Statistic

ORACLE = "oracle"
N_DRAWS = 1_000
N_SIGNS = 10_000
_AT_ONCE = 500
_IN_CACHE = 25
_ROUNDING = 1e-12
_ROWS = rows_of(
    "(from intermediate.int_signal_rows union all by name select * exclude (parametric_correct, retrieval_correct,"  # noqa: S608
    " parametric_confidence), parametric_confidence as confidence, parametric_correct::integer as parametric,"
    " retrieval_correct::integer as retrieval, null::varchar as signal_prompt"
    f" from intermediate.int_answer_pairs semi join (from intermediate.int_method_pairs where n_questions = 0)"
    f" using ({', '.join(KEY)}))"
)
_UNITS = (
    "select dataset, question_id, coalesce(subject_id, question_id) as unit"
    " from intermediate.int_questions order by all"
)
_DECISIONS = (
    "select dataset, policy, question_id, retrieves, score from intermediate.int_decisions order by all"
)


def compare_policies(tables: Sequence[pa.Table], seed: int, log: logging.Logger) -> dict[str, Rows]:
    """The rows of lake table policies. `tables`: the questions of each pair, splits, subjects, decisions of others."""
    training = training_of(tables[1], tables[2])
    subjects = {(row["dataset"], row["question_id"]): row["unit"] for row in tables[3].to_pylist()}
    others: dict[str, dict[str, dict[str, Any]]] = {}
    for row in tables[4].to_pylist():
        others.setdefault(row["dataset"], {}).setdefault(row["policy"], {})[row["question_id"]] = row

    def compare(group: Sequence[Pair]) -> Rows:
        found: Rows = []
        dataset, questions = group[0].key["dataset"], group[0].columns["question_id"]
        if not len(questions):
            return found
        units = np.unique([subjects[dataset, one] for one in questions], return_inverse=True)[1]
        is_training = np.zeros((0, len(questions)), bool)
        if questions[0] in training.get(dataset, {}):
            is_training = scored_splits(group[0], training[dataset])
        decided = _fitted(group, is_training)
        for at, pair in enumerate(group):
            arena = _Arena(pair, is_training, units, seed_of(seed, pair.key.values()))
            own = {name: by_method[at] for name, by_method in decided.items()}
            found += arena.rows(own)
            for name, said in others.get(dataset, {}).items():
                taken = {NEVER, ALWAYS, ORACLE, *own}
                found += arena.rows_of_others(f"{name} (imported)" if name in taken else name, said)
        return found

    rows = in_parallel(compare, groups_of(tables[0]), log, "policies: models")
    return {"policies": [row for by_group in rows for row in by_group]}


def _fitted(group: Sequence[Pair], is_training: Values) -> dict[str, Sequence[Values]]:
    """By signal, for each pair of the group, splits × questions: whether to retrieve. With one threshold for all
    questions; popularity also with one for each relation, which the predictions know already."""
    if not len(is_training):
        return {}
    asked = asked_of(group, undefined_signals(group[0], is_training))
    return {
        signal if scope == ALL else f"{signal}_{scope}": by_method
        for (signal, scope), by_method in decisions(asked, is_training.astype(float)).items()
        if signal not in FIXED_POLICIES and (scope == ALL or signal == POPULARITY)
    }


class _Arena:
    """One pair's n questions; `is_training`: splits × n; `units`: the subject of each question, from 0."""

    def __init__(self, pair: Pair, is_training: Values, units: Values, seed: int) -> None:
        self.pair, self.is_training, self.units, self.seed = pair, is_training, units, seed
        self.places = {one: at for at, one in enumerate(pair.columns["question_id"])}
        self.difference = pair.columns["retrieval"] - pair.columns["parametric"]

    def rows(self, fitted: Mapping[str, Values]) -> Iterator[dict[str, Any]]:
        """The rows of never, always, the oracle and the fitted thresholds."""
        every = np.arange(len(self.difference))
        yield from self._compared(fitted, every, {NEVER, ALWAYS, ORACLE, *fitted})

    def rows_of_others(self, name: str, said: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The row of a policy of others, on the questions that it decides; none without these or a fit.

        A policy with scores alone retrieves at and above a threshold that is fitted as those of signals are.
        """
        has_scores = all(one["retrieves"] is None for one in said.values())
        meaning = "score" if has_scores else "retrieves"
        known = {self.places[one]: row[meaning] for one, row in said.items() if one in self.places}
        rows = np.array(sorted(at for at, value in known.items() if value is not None), dtype=int)
        if not len(rows) or (has_scores and not len(self.is_training)):
            return
        values = np.array([[known[at] for at in rows]])
        if has_scores:
            is_fitted = self.is_training[:, rows]
            lower = np.broadcast_to(-values, is_fitted.shape)
            (limit,) = thresholds(lower, is_fitted, [is_fitted * self.difference[rows]])
            values = lower < limit[:, None]
        yield from self._compared({name: values}, rows, {name})

    def _compared(
        self, fitted: Mapping[str, Values], rows: Values, shown: set[str]
    ) -> Iterator[dict[str, Any]]:
        """The rows of the policies `shown`, on the questions `rows`. `fitted`: decisions, splits × rows or 1 × rows."""
        columns = {name: values[rows] for name, values in self.pair.columns.items()}
        weight = _weights(~self.is_training[:, rows])
        decided = {
            NEVER: np.zeros((1, 1), bool), ALWAYS: np.ones((1, 1), bool),
            ORACLE: self.difference[None, rows] > 0, **fitted,
        }  # fmt: skip
        names = [*decided]
        shares = np.stack([(weight * values).sum(axis=0) for values in decided.values()], axis=1)
        n_tested = weight.sum(axis=0)[:, None]
        right = columns["parametric"][:, None] * (n_tested - shares) + columns["retrieval"][:, None] * shares
        better = max((NEVER, ALWAYS), key=lambda name: float(right[:, names.index(name)].sum()))
        spread = _Spread(right, n_tested, self.units[rows], names.index(better), self.seed)
        for at, name in enumerate(names):
            if name in shown:
                costs = np.where(decided[name], columns["retrieval_cost_usd"], columns["parametric_cost_usd"])
                costs = costs + signal_cost(name, "cost_usd", columns, decided[name])
                cost = float(np.where(weight > 0, weight * costs, 0.0).sum())
                yield {
                    **self.pair.key, "policy": name, "n_decided": int((n_tested > 0).sum()),
                    "policy_share_retrieved": round(float(shares[:, at].sum()), 12),
                    "policy_cost_usd_per_1000": None if np.isnan(cost) else 1_000 * cost,
                    **spread.of(at, names.index(ORACLE)),
                }  # fmt: skip


class _Spread:
    """What policies are right for, and by how much, when subjects are drawn again.

    `right`, n × policies: by how much a question counts for each. `better`: the policy that others are compared with.
    """

    def __init__(self, right: Values, n_tested: Values, units: Values, better: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        numbers = np.unique(units, return_inverse=True)[1]
        sums = np.zeros((numbers.max() + 1, right.shape[1] + 1))
        np.add.at(sums, numbers, np.hstack([right, n_tested]))
        drawn = np.concatenate([
            draws(len(sums), _AT_ONCE, rng).astype(float) @ sums for _ in range(N_DRAWS // _AT_ONCE)
        ])  # fmt: skip
        self._accuracy = np.vstack([sums[:, :-1].sum(axis=0), drawn[:, :-1] / drawn[:, -1:]])
        self._gain = self._accuracy - self._accuracy[:, [better]]
        self._p_values = _p_values(sums[:, :-1] - sums[:, [better]], rng)

    def of(self, at: int, oracle: int) -> dict[str, float | None]:
        """The measures of policy `at`; `gap_share`: its gain divided by that of the policy `oracle`."""
        room = self._gain[:, oracle]
        gap = np.divide(self._gain[:, at], room, out=np.full(len(room), np.nan), where=room > 0)
        found: dict[str, float | None] = {"policy_p_value": self._p_values[at] if at != oracle else None}
        for name, values in (
            ("policy_accuracy", self._accuracy[:, at]), ("policy_gain", self._gain[:, at]), ("gap_share", gap)
        ):  # fmt: skip
            low, high = percentiles(values[1:]) or (None, None)
            found |= {name: None if np.isnan(values[0]) else round(float(values[0]), 12)}
            found |= {f"{name}_ci_low": low, f"{name}_ci_high": high}
        return found


def _p_values(differences: Values, rng: np.random.Generator) -> list[float | None]:
    """Two-sided p of each column's sum (subjects × policies) under random signs of subjects; None if all are 0."""
    # Rounding errors, which depend on the machine, decide neither who gets a sign nor which sums are equal.
    told = differences[(np.abs(differences) > _ROUNDING).any(axis=1)]
    total = told.sum(axis=0)
    least = np.abs(total) * (1 - 1e-9)
    n_above = np.zeros(differences.shape[1])
    for _ in range(N_SIGNS // _AT_ONCE):
        is_turned = rng.integers(0, 2, (_AT_ONCE, len(told)), dtype=np.int8)
        for some in np.split(is_turned, _AT_ONCE // _IN_CACHE):
            n_above += (np.abs(2 * (some.astype(float) @ told) - total) >= least).sum(axis=0)
    known = np.asarray((np.abs(differences) > _ROUNDING).any(axis=0))
    return [
        float((1 + n) / (1 + N_SIGNS)) if is_known else None
        for n, is_known in zip(n_above, known, strict=True)
    ]


def _weights(is_test: Values) -> Values:
    """Splits × n, 1 in all: every question that some split tests counts the same, in each of these splits.

    Without any split, every question counts in one.
    """
    tested = is_test if is_test.any() else np.ones((1, is_test.shape[1]), bool)
    n_tests = tested.sum(axis=0)
    return np.asarray(tested / np.maximum(n_tests, 1) / (n_tests > 0).sum())


POLICIES = Statistic(
    "policies",
    tables=("policies",),
    models=("int_signal_rows", "int_adaptive_splits", "int_answer_pairs", "int_method_pairs", "int_questions",
            "int_decisions"),
    queries=(_ROWS, SPLITS, N_SPLITS, _UNITS, _DECISIONS),
    compute=compare_policies,
)  # fmt: skip
