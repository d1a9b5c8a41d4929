"""Does confidence or a prediction decide better than popularity whether to retrieve, and what does knowing it cost?

The splits are those of adaptive retrieval. On each, models and thresholds know the training questions alone. `policies`
has the arena, in which the same decisions meet those of others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.adaptive_gains import is_settled
from longtail.statistics.policies import Said, arena
from longtail.statistics.prediction_fit import PREDICTORS
from longtail.statistics.resampling import seed_of
from longtail.statistics.results import compute_parts, digest
from longtail.statistics.signal_policies import (
    ALL,
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
    PER_RELATION,
    PREDICTED,
    ROWS,
    SCOPES,
    SIGNAL_COSTS,
    SPLITS,
    Asked,
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
from longtail.statistics.signal_quality import Model, Values, fit_model, probabilities

RESULTS = SIGNALS, GAINS, RULES, POLICIES = ("signals", "gains", "rules", "policies")
"""Kinds of rows: one per signal and scope; per baseline of these; per relation of these; per policy."""
QUERIES = (
    ROWS,
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
    rows: pa.Table, splits: pa.Table, n_splits: pa.Table, decisions: pa.Table, seed: int, last: pa.Table | None = None
) -> pa.Table:  # fmt: skip
    """The rows of int_adaptive_signals. `QUERIES` read the questions of each pair, the splits, decisions of others;
    `last`: as in `compute_parts`."""
    training = training_of(splits, n_splits)
    others: dict[str, dict[str, dict[str, Any]]] = {}
    for row in decisions.to_pylist():
        others.setdefault(row["dataset"], {}).setdefault(row["policy"], {})[row["question_id"]] = row
    of_dataset = {name: digest(seed, trains, others.get(name, {})) for name, trains in training.items()}
    parts = []
    for group in groups_of(rows):
        dataset = group[0].key["dataset"]
        made_from = [of_dataset.get(dataset, digest(seed, others.get(dataset, {}))), *map(vars, group)]
        parts.append((digest(*made_from), group))

    def compare(group: Sequence[Pair]) -> Iterator[Row]:
        dataset = group[0].key["dataset"]
        return _compare(group, training.get(dataset, {}), others.get(dataset, {}), seed)

    return compute_parts(compare, parts, SCHEMA, last)


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
