"""Does confidence or a prediction decide better than popularity whether to retrieve, and what does knowing it cost?

The splits are those of adaptive retrieval. On each, models and thresholds know the training questions alone.

In the arena (`arena`), decisions of others take part: how often does each policy retrieve, what is it right for, what
does it cost, and how near does it come to the oracle? Thresholds decide the test questions of each split, fitted on its
training questions. Every question counts once: by the share of the splits testing it in which it gets a passage. So all
policies of a pair are compared on the same questions, decisions of others on those that they decide. A policy is
compared with the better one of never and always: on the same questions, or on the training questions if the policy
itself is fitted there. Policy `best_signal` chooses its signal on the training questions, in each split and in each
resample anew (`signal_policies`), so what choosing costs is part of its gain and of its interval.

Intervals of the arena draw whole subjects again, and p is that of random signs of the subjects' gains. Both leave the
fits as they are, so a fitted gain would seem too certain: in worlds of noise a fifth of the p values were below .05.
Its deviations are stretched by the ratio of two standard errors, with fitting and without
(`adaptive_gains.deciding_and_variance`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.adaptive_gains import LEAST_DEPARTING, deciding_and_variance, is_settled
from longtail.statistics.prediction_fit import PREDICTORS
from longtail.statistics.resampling import ROUNDING, draws, interval, reason_against, seed_of, sign_flip_p
from longtail.statistics.results import compute_parts, digest
from longtail.statistics.signal_policies import (
    ALIKE,
    ALL,
    ALWAYS,
    BASELINES,
    CONFIDENCE,
    COSTS,
    FIXED,
    FIXED_POLICIES,
    KEY,
    LOG_CONFIDENCE,
    MODEL,
    N_RESAMPLES,
    N_SPLITS,
    NEVER,
    PER_RELATION,
    POPULARITY,
    PREDICTED,
    SCOPES,
    SIGNAL_COSTS,
    SPLITS,
    Asked,
    Columns,
    Pair,
    Policy,
    Training,
    asked_of,
    choose_signals,
    count_questions,
    decisions,
    gain_over,
    groups_of,
    relation_rows,
    resample_accuracies,
    scored_splits,
    signal_cost,
    thresholds,
    training_of,
    undefined_signals,
)
from longtail.statistics.signal_quality import BEST, Model, Values, fit_model, probabilities

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


RESULTS = SIGNALS, GAINS, RULES, POLICIES = ("signals", "gains", "rules", "policies")
"""Kinds of rows: one per signal and scope; per baseline of these; per relation of these; per policy."""
QUERIES = (
    SPLITS,
    N_SPLITS,
    "select dataset, policy, question_id, retrieves, score from int_decisions order by all",
)
_COSTS_OF_MIX = ("device_seconds_per_1000", "cost_usd_per_1000", "answer_latency_ms")
_COSTS_OF_SIGNAL = (
    "signal_tokens_per_1000", "signal_device_seconds_per_1000", "signal_cost_usd_per_1000", "signal_latency_ms"
)  # fmt: skip  # in the order of SIGNAL_COSTS
_NUMBERS = (
    "accuracy", *(f"accuracy_{name}" for name in FIXED_POLICIES), "share_retrieved", *_COSTS_OF_MIX, *_COSTS_OF_SIGNAL
)  # fmt: skip

_FLOATS = (
    *_NUMBERS, "gain", "variance_of_splits", "gain_standard_error", "n_deciding", "share_departing",
    "threshold_probability", "policy_share_retrieved", "policy_cost_usd_per_1000", "policy_p_value",
    *(f"{name}{end}" for name in ("policy_accuracy", "policy_gain", "gap_share") for end in ("", "_ci_low", "_ci_high")),
)  # fmt: skip
_COUNTS = (
    "n_questions", "n_compared", "n_zero_popularity", "n_no_measures", "n_no_confidence", "n_one_outcome", "n_splits",
    *(f"n_{side}{name}" for side in ("below", "above") for name in ("", "_with", "_without")), "n_decided",
)  # fmt: skip
_TEXTS = (
    *("result", *KEY, "signal", "threshold_scope", "baseline", "relation", "signal_prompt", "policy"),
    *("undefined", "no_interval", "no_gain_interval", "no_gap_interval", "chosen_signals"),
)
SCHEMA = pa.schema([
    *((name, pa.string()) for name in _TEXTS),
    *((name, pa.int64()) for name in _COUNTS),
    ("n_resamples", pa.int32()),
    *((name, pa.float64()) for name in _FLOATS),
    ("predictor_names", pa.list_(pa.string())),
    *((name, pa.list_(pa.float64())) for name in ("predictor_means", "predictor_deviations", "rule_coefficients")),
])  # fmt: skip
"""Columns of all kinds of rows; those that a row's kind has not are null."""

FEATURES = dict(
    zip((*PREDICTORS, LOG_CONFIDENCE), ("popularity", "consistency", "certainty", CONFIDENCE), strict=True)
)
"""What `decide` of a router calls the predictors. Popularity and confidence enter by their natural logarithms."""
_ITSELF = Model(np.zeros(1), np.ones(1), np.array([0.0, 1.0]), np.empty((0, 2)))
"""Of confidence as the signal, which is compared with the threshold as it is."""

Row = dict[str, Any]
Undefined = Mapping[str, str | None]


def compare_signals(
    rows: Iterable[pa.Table], splits: pa.Table, n_splits: pa.Table, decisions: pa.Table, seed: int,
    last: pa.Table | None = None,
) -> pa.Table:  # fmt: skip
    """The rows of int_adaptive_signals. `rows`: the questions of each pair, the results of `ROWS` for one `MODEL` after
    another; `QUERIES` read the splits, decisions of others; `last`: as in `compute_parts`."""
    training = training_of(splits, n_splits)
    others: dict[str, dict[str, dict[str, Any]]] = {}
    for row in decisions.to_pylist():
        others.setdefault(row["dataset"], {}).setdefault(row["policy"], {})[row["question_id"]] = row
    of_dataset = {name: digest(seed, trains, others.get(name, {})) for name, trains in training.items()}

    def parts() -> Iterator[tuple[str, list[Pair]]]:
        for group in itertools.chain.from_iterable(map(groups_of, rows)):
            dataset = group[0].key["dataset"]
            made_from = [of_dataset.get(dataset, digest(seed, others.get(dataset, {}))), *map(vars, group)]
            yield digest(*made_from), group

    def compare(group: Sequence[Pair]) -> Iterator[Row]:
        dataset = group[0].key["dataset"]
        return _compare(group, training.get(dataset, {}), others.get(dataset, {}), seed)

    return compute_parts(compare, parts(), SCHEMA, last)


def _compare(
    group: Sequence[Pair], training: Training, others: Mapping[str, Said], seed: int
) -> Iterator[Row]:
    """The rows of pairs that differ in the retrieval method alone."""
    first = group[0]
    decided: Mapping[Policy, Sequence[Values]] = {}
    resampled: Mapping[Policy, Sequence[Values]] = {}
    chosen: Sequence[str] = []
    has_popularity = not np.isnan(first.columns["popularity"]).any()
    is_split = training.keys() >= set(first.columns["question_id"])
    is_training = scored_splits(first, training if is_split else {})
    undefined = undefined_signals(first, is_training)
    if len(is_training):
        asked = asked_of(group, undefined)
        decided = decisions(asked, is_training.astype(float))
        resampled = resample_accuracies(asked, seed_of(seed, (first.key[name] for name in MODEL)))
        names = [*asked.candidates]
        chosen = [names[number] for number in choose_signals(asked, is_training)] if names else []
    for at, pair in enumerate(group):
        decided_here = {policy: by_method[at] for policy, by_method in decided.items()}
        drawn = {policy: by_method[at] for policy, by_method in resampled.items()}
        if has_popularity:
            yield from _of_result(SIGNALS, _policies(pair, decided_here, ~is_training, undefined))
        if has_popularity and len(is_training):
            yield from _of_result(GAINS, _gains(pair, asked.policies, decided_here, ~is_training, drawn))
            yield from _of_result(RULES, rules_of(pair, asked, at))
        if len(pair.columns["question_id"]):
            yield from _of_result(
                POLICIES, arena(pair, is_training, decided_here, drawn, chosen, others, seed)
            )


def _of_result(result: str, rows: Iterator[Row]) -> Iterator[Row]:
    return ({"result": result, **row} for row in rows)


def _policies(
    pair: Pair, decided: Mapping[Policy, Values], test: Values, undefined: Undefined
) -> Iterator[dict[str, Any]]:
    """One row per signal and scope, with its numbers or the reason why it has none."""
    weights = test / (test.sum(axis=1, keepdims=True) * len(test)) if decided else test
    shares = {
        policy: ((weights * retrieves).sum(axis=0), (weights * ~retrieves).sum(axis=0))
        for policy, retrieves in decided.items()
    }
    for signal, scope in itertools.product(undefined, SCOPES):
        reason = undefined[signal]
        yield {
            **count_questions(pair), "signal": signal, "threshold_scope": scope, "n_splits": 0 if reason else len(test),
            **(dict.fromkeys(_NUMBERS) if reason else _numbers(pair, shares, (signal, scope))),
            "undefined": reason,
        }  # fmt: skip


def _numbers(
    pair: Pair, shares: Mapping[Policy, tuple[Values, Values]], policy: Policy
) -> dict[str, float | None]:
    """Means over the splits of means over their test questions; a cost is None unless known for every test question.

    `shares`: how much each question counts where a policy retrieves, and where it does not; 1 in all.
    """
    columns = pair.columns

    def chosen(name: str, by: Policy) -> float | None:
        return _mean(shares[by], columns[f"retrieval{name}"], columns[f"parametric{name}"])

    def paid(cost: str) -> float | None:
        return _mean(
            shares[policy],
            *(signal_cost(policy[0], cost, columns, np.array(retrieves)) for retrieves in (True, False)),
        )

    accuracies = {f"accuracy_{name}": chosen("", (name, "all")) for name in FIXED_POLICIES}
    return {
        "accuracy": chosen("", policy), **accuracies,
        "share_retrieved": _mean(shares[policy], 1.0, 0.0),
        **{name: _cost(name, chosen(f"_{cost}", policy)) for name, cost in zip(_COSTS_OF_MIX, COSTS, strict=True)},
        **{name: _cost(name, paid(cost)) for name, cost in zip(_COSTS_OF_SIGNAL, SIGNAL_COSTS, strict=True)},
    }  # fmt: skip


def _mean(shares: tuple[Values, Values], *values: Values | float) -> float | None:
    """`values`: those of the questions if they are retrieved for, and if they are not. The mean of ones is exactly 1."""
    pairs = zip(shares, values, strict=True)
    total = sum(np.where(share > 0, share * value, 0.0).sum() for share, value in pairs)
    return None if np.isnan(total) else float(total / sum(share.sum() for share in shares))


def _cost(name: str, of_a_question: float | None) -> float | None:
    if of_a_question is None or not name.endswith("_per_1000"):
        return of_a_question
    return 1_000 * of_a_question


def _gains(
    pair: Pair,
    policies: Sequence[Policy],
    decided: Mapping[Policy, Values],
    test: Values,
    resampled: Mapping[Policy, Values],
) -> Iterator[dict[str, Any]]:
    """One row per policy and baseline."""
    difference = pair.columns["retrieval"] - pair.columns["parametric"]
    settled = is_settled(decided[FIXED, ALL])
    for policy, (baseline, other) in itertools.product(policies, BASELINES.items()):
        if other == policy:
            continue
        gained = gain_over(
            decided[policy], decided[other], difference, test, pair.unit, resampled[policy] - resampled[other], settled
        )  # fmt: skip
        signal, scope = policy
        yield {
            **pair.key, "signal": signal, "threshold_scope": scope, "baseline": baseline,
            "n_questions": pair.counts["n_questions"], "n_resamples": N_RESAMPLES, **vars(gained),
        }  # fmt: skip


def rules_of(pair: Pair, asked: Asked, at: int) -> Iterator[Row]:
    """One row per signal, scope and relation, and one for relation `all`. `at`: the pair's place in `asked`."""
    ones, by_relation = np.ones((1, len(asked.parametric))), {ALL: slice(0, len(asked.relation))}
    by_relation |= {str(asked.relation[rows.start]): rows for rows in relation_rows(asked.relation)}
    predictors = {signal.name: [FEATURES[predictor] for predictor in signal.numeric] for signal in PREDICTED}
    predictors[CONFIDENCE] = [CONFIDENCE]
    fitted = {
        signal: (probabilities(features, asked.parametric, ones), fit_model(features, asked.parametric))
        for signal, features in asked.features.items()
    }
    if CONFIDENCE in asked.numbers:
        fitted[CONFIDENCE] = (asked.numbers[CONFIDENCE][None], _ITSELF)
    for signal, (values, model) in fitted.items():
        limits = {
            relation: float(
                thresholds(values[:, rows], ones[:, rows], [asked.differences[at][None, rows]])[0][0]
            )
            for relation, rows in by_relation.items()
        }
        for scope, (relation, rows) in itertools.product(SCOPES, by_relation.items()):
            limit = limits[relation if scope == PER_RELATION else ALL]
            yield {
                **pair.key, "signal": signal, "threshold_scope": scope, "relation": relation,
                "signal_prompt": pair.signal_prompt, "n_questions": pair.counts["n_questions"],
                "predictor_names": predictors[signal], "predictor_means": model.mean.tolist(),
                "predictor_deviations": model.deviation.tolist(),
                "rule_coefficients": _coefficients(model, asked, signal, rows).tolist(),
                "threshold_probability": limit,
                **_sides(pair, rows, values[0, rows] < limit),
            }  # fmt: skip


def _coefficients(model: Model, asked: Asked, signal: str, rows: slice) -> Values:
    """Intercept and slopes; those in common for relation `all`, which is for questions without a known relation."""
    group = asked.features[signal].group if signal in asked.features else None
    if group is None or rows == slice(0, len(asked.relation)):
        return model.common
    return np.asarray(model.common + model.by_group[group[rows.start]])


def _sides(pair: Pair, rows: slice, is_below: Values) -> Row:
    counts: Row = {}
    for side, chosen in (("below", is_below), ("above", ~is_below)):
        counts[f"n_{side}"] = int(chosen.sum())
        for name, method in (("with", "retrieval"), ("without", "parametric")):
            counts[f"n_{side}_{name}"] = int(pair.columns[method][rows][chosen].sum())
    return counts
