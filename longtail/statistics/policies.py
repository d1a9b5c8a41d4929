"""An arena of policies: how often each retrieves, what it is right for and costs, and how near it comes to the oracle.

Thresholds decide the test questions of each split, fitted on its training questions. Every question counts once: by the
share of the splits testing it in which it gets a passage. So all policies of a pair are compared on the same questions,
decisions of others on those that they decide. A policy is compared with the better one of never and always: on the same
questions, or on the training questions if the policy itself is fitted there.

Policy `best_signal` chooses its signal on the training questions, in each split and in each resample anew
(`signal_policies`), so what choosing costs is part of its gain and of its interval.

Intervals draw whole subjects again, and p is that of random signs of the subjects' gains. Both leave the fits as they
are, so a fitted gain would seem too certain: in worlds of noise a fifth of the p values were below .05. Its deviations
are stretched by the ratio of two standard errors, with fitting and without (`adaptive_gains.deciding_and_variance`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from longtail.statistics.adaptive_gains import (
    LEAST_DEPARTING,
    deciding_and_variance,
    is_settled,
)
from longtail.statistics.resampling import (
    ROUNDING,
    draws,
    interval,
    reason_against,
    seed_of,
    sign_flip_p,
)
from longtail.statistics.signal_policies import (
    ALIKE,
    ALL,
    ALWAYS,
    FIXED,
    FIXED_POLICIES,
    NEVER,
    POPULARITY,
    Asked,
    Columns,
    Pair,
    Policy,
    resample_accuracies,
    signal_cost,
    thresholds,
)
from longtail.statistics.signal_quality import BEST, Values

ORACLE = "oracle"
N_DRAWS = 1_000
_AT_ONCE = 500
_SCORE = (POPULARITY, ALL)
"""The place of a score of others among the signals, while its threshold is fitted again."""

Said = Mapping[str, Mapping[str, Any]]
"""By question, what a policy of others says: `retrieves` or `score`."""
Fitted = Mapping[str, tuple[Values, Values]]
"""By policy, its decisions (splits × n), and what it gains over the better fixed method in resamples × 2 deals."""


def arena(
    pair: Pair, is_training: Values, decided: Mapping[Policy, Values], resampled: Mapping[Policy, Values],
    chosen: Sequence[str], others: Mapping[str, Said], seed: int,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The rows of lake table policies of one pair of methods.

    `decided` and `resampled`: by signal and scope, decisions (splits × n) and accuracies (resamples × 2 deals).
    `chosen`: the signal by which `best_signal` decides in each split. Signals
    have one threshold for all questions; popularity also has one for each relation, which the predictions know already.
    """
    fitted = {
        signal if scope == ALL else f"{signal}_{scope}": (
            values, resampled[signal, scope] - resampled[FIXED, ALL]
        )
        for (signal, scope), values in decided.items()
        if signal not in FIXED_POLICIES and (scope == ALL or signal == POPULARITY)
    }  # fmt: skip
    by_pair = _Arena(pair, is_training, chosen, seed_of(seed, pair.key.values()))
    yield from by_pair.compare(
        {}, fitted, np.arange(len(by_pair.difference)), {NEVER, ALWAYS, ORACLE, *fitted}
    )
    for name, said in others.items():
        is_taken = name in {NEVER, ALWAYS, ORACLE, *fitted}
        yield from by_pair.rows_of_others(f"{name} (imported)" if is_taken else name, said)


class _Arena:
    """One pair's n questions; `is_training`: splits × n; `chosen` (splits): as in `arena`."""

    def __init__(self, pair: Pair, is_training: Values, chosen: Sequence[str], seed: int) -> None:
        self.pair, self.is_training, self.chosen, self.seed = pair, is_training, chosen, seed
        self.places = {question_id: at for at, question_id in enumerate(pair.columns["question_id"])}
        self.difference = pair.columns["retrieval"] - pair.columns["parametric"]

    def rows_of_others(self, name: str, said: Said) -> Iterator[dict[str, Any]]:
        """The row of a policy of others, on the questions that it decides; none without these or a fit.

        A policy with scores alone retrieves at and above a threshold that is fitted as those of signals are.
        """
        has_scores = all(row["retrieves"] is None for row in said.values())
        meaning = "score" if has_scores else "retrieves"
        known = {self.places[name]: row[meaning] for name, row in said.items() if name in self.places}
        rows = np.array(sorted(at for at, value in known.items() if value is not None), dtype=int)
        if not len(rows) or (has_scores and not len(self.is_training)):
            return
        values = np.array([[known[at] for at in rows]])
        if not has_scores:
            return (yield from self.compare({name: values}, {}, rows, {name}))
        is_fitted, difference = self.is_training[:, rows], self.difference[rows]
        lower = np.broadcast_to(-values, is_fitted.shape)
        (limit,) = thresholds(lower, is_fitted, [is_fitted * difference])
        columns = self.pair.columns
        asked = Asked(
            np.full(len(rows), ""), {POPULARITY: -values[0]}, columns["parametric"][rows], (difference,), {},
            np.unique(self.pair.unit[rows], return_inverse=True)[1],
        )  # fmt: skip
        resampled = resample_accuracies(asked, self.seed)
        gained = resampled[_SCORE][0] - resampled[FIXED, ALL][0]
        yield from self.compare({}, {name: (lower < limit[:, None], gained)}, rows, {name})

    def compare(
        self, others: Mapping[str, Values], fitted: Fitted, rows: Values, shown: set[str]
    ) -> Iterator[dict[str, Any]]:
        """The rows of the policies `shown`, on the questions `rows`. `others`: decisions without a fit, 1 × rows."""
        columns = {name: values[rows] for name, values in self.pair.columns.items()}
        is_training, difference = self.is_training[:, rows], self.difference[rows]
        weight = _weights(~is_training)
        fits = is_training if len(is_training) else np.ones((1, len(rows)))
        decided = {
            NEVER: np.zeros((1, 1), bool), ALWAYS: np.ones((1, 1), bool), ORACLE: difference[None] > 0,
            FIXED: (fits @ difference > 0)[:, None], **others, 
            **{name: decisions for name, (decisions, _) in fitted.items()},
        }  # fmt: skip
        names, tested = [*decided], weight.any(axis=0)
        most_frequent = [name for name, _ in Counter(self.chosen).most_common()]
        shares = np.stack([(weight * values).sum(axis=0) for values in decided.values()], axis=1)
        spread = _Spread(
            names, shares[tested] * tested.sum(), columns["parametric"][tested], difference[tested],
            self.pair.unit[rows][tested], {name: gained for name, (_, gained) in fitted.items()},
            is_settled(decided[FIXED]), self.seed,
        )  # fmt: skip
        for at, name in enumerate(names):
            if name in shown:
                costs = np.where(decided[name], columns["retrieval_cost_usd"], columns["parametric_cost_usd"])
                costs = costs + self._signal_cost(name, columns, decided[name])
                cost = float(np.where(weight > 0, weight * costs, 0.0).sum())
                yield {
                    **self.pair.key, "policy": name, "n_decided": int(tested.sum()),
                    "policy_share_retrieved": round(float(shares[:, at].sum()), 12),
                    "policy_cost_usd_per_1000": None if np.isnan(cost) else 1_000 * cost,
                    "chosen_signals": ", ".join(most_frequent) if name == BEST else None,
                    **spread.of(name),
                }  # fmt: skip

    def _signal_cost(self, name: str, columns: Columns, decided: Values) -> Values:
        if name != BEST:
            return signal_cost(name, "cost_usd", columns, decided)
        pairs = zip(self.chosen, decided, strict=True)
        return np.array([signal_cost(signal, "cost_usd", columns, by_split) for signal, by_split in pairs])


class _Spread:
    """What policies are right for, and by how much, when subjects are drawn again.

    `shares` (n × policies): how often a question gets a passage. `parametric`, `difference`, `unit` (n): as in `Asked`.
    `resampled`: the gains of fitted policies, as in `Fitted`. `settled`: splits agree on the better fixed method.
    """

    def __init__(
        self, names: Sequence[str], shares: Values, parametric: Values, difference: Values, unit: Values,
        resampled: Mapping[str, Values], settled: bool, seed: int,
    ) -> None:  # fmt: skip
        rng, self._names = np.random.default_rng(seed), names
        unit = np.unique(unit, return_inverse=True)[1]
        right = parametric[:, None] + shares * difference[:, None]
        self._sums = np.zeros((unit.max() + 1, len(names) + 1))
        np.add.at(self._sums, unit, np.hstack([right, np.ones((len(right), 1))]))
        drawn = [
            draws(len(self._sums), _AT_ONCE, rng).astype(float) @ self._sums
            for _ in range(N_DRAWS // _AT_ONCE)
        ]
        every = np.concatenate([self._sums.sum(axis=0, keepdims=True), *drawn])
        self._accuracy = every[:, :-1] / every[:, -1:]
        never, always, fixed = map(names.index, (NEVER, ALWAYS, FIXED))
        self._better = always if self._accuracy[0, always] > self._accuracy[0, never] else never
        bases = [fixed if name in resampled else self._better for name in names]
        self._n_deciding, self._reasons, self._stretch = [], [], np.ones(len(names))
        for at, (name, base) in enumerate(zip(names, bases, strict=True)):
            n_deciding, scoring, variance, reason = deciding_and_variance(
                right[:, at] - right[:, base], resampled.get(name, np.zeros((2, 2))), unit, settled
            )
            reason = reason_against(len(self._sums)) or reason
            if name in resampled and not reason:
                self._stretch[at] = np.sqrt(max(variance, scoring) / scoring)
                departing = np.abs(shares[:, at] - shares[:, fixed])[difference != 0]
                reason = ALIKE if departing.mean() < LEAST_DEPARTING else None
            self._n_deciding.append(n_deciding)
            self._reasons.append(reason)
        self._gain = self._gains_over(bases)
        differences = self._sums[:, :-1] - self._sums[:, bases]
        p_values = sign_flip_p(differences, seed, stretch=self._stretch)
        is_alike = (np.abs(differences) < ROUNDING).all(axis=0)
        self._p_values = [
            None if alike or name == ORACLE or (name in resampled and reason) else float(p)
            for name, reason, alike, p in zip(names, self._reasons, is_alike, p_values, strict=True)
        ]

    def _gains_over(self, others: int | list[int]) -> Values:
        """Of each resample, by policy: its accuracy minus that of another; deviations as wide as with new fits."""
        gains = self._accuracy - self._accuracy[:, np.atleast_1d(others)]
        return np.asarray(gains[0] + self._stretch * (gains - gains[0]))

    def of(self, name: str) -> dict[str, Any]:
        """The measures of a policy; `gap_share`: its gain over the better one of never and always, by the oracle's."""
        at, oracle = map(self._names.index, (name, ORACLE))
        above = self._gains_over(self._better)
        room = above[:, oracle]
        gap = np.divide(above[:, at], room, out=np.full(len(room), np.nan), where=room > ROUNDING)
        *n_right, n = self._sums.sum(axis=0)
        n_rarer = min((self._sums[:, at] > 0).sum(), (self._sums[:, -1] - self._sums[:, at] > ROUNDING).sum())
        of_gain, of_room = self._reasons[at], self._reasons[oracle]
        measures: dict[str, Any] = {"policy_p_value": self._p_values[at]}
        for measure, why, values, reason, n_deciding in (
            ("policy_accuracy", "no_interval", self._accuracy[:, at],
             reason_against(len(self._sums), n_right[at], n - n_right[at]), n_rarer),
            ("policy_gain", "no_gain_interval", self._gain[:, at], of_gain, self._n_deciding[at]),
            ("gap_share", "no_gap_interval", gap, of_gain or of_room, self._n_deciding[at]),
        ):  # fmt: skip
            if np.isnan(values[0]):
                reason = "the oracle gains nothing"
            low, high, reason = interval(values[1:], reason, n_deciding)
            measures |= {measure: None if np.isnan(values[0]) else round(float(values[0]), 12)}
            measures |= {f"{measure}_ci_low": low, f"{measure}_ci_high": high, why: reason}
        return measures


def _weights(is_test: Values) -> Values:
    """Splits × n, 1 in all: every question that some split tests counts the same, in each of these splits.

    Without any split, every question counts in one.
    """
    tested = is_test if is_test.any() else np.ones((1, is_test.shape[1]), bool)
    n_tests = tested.sum(axis=0)
    return np.asarray(tested / np.maximum(n_tests, 1) / (n_tests > 0).sum())
