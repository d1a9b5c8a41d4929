"""The prediction of a router file, from the marts of a published warehouse; confidence as the signal counts as one.

Such a signal decides only if it is surely better than what needs none: the intervals of its held-out
gains over the better fixed method and over both thresholds on popularity exclude zero (`is_surely_better` of
fct_adaptive_signals). Its features are dear: the model answers, or paraphrases and samples too, before each decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]

SIGNALS = """
select
    dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope, n_compared, n_splits, accuracy,
    accuracy_always, accuracy_never, accuracy_fixed, share_retrieved, gain, gain_ci_low, gain_ci_high,
    gain_over_popularity_all, gain_over_popularity_all_ci_low, gain_over_popularity_all_ci_high,
    gain_over_popularity_per_relation, gain_over_popularity_per_relation_ci_low,
    gain_over_popularity_per_relation_ci_high, signal_tokens_per_1000, signal_device_seconds_per_1000,
    signal_cost_usd_per_1000, signal_latency_ms
from marts.fct_adaptive_signals
where is_surely_better
order by all
"""
RULES = """
select
    rules.* exclude (n_questions)
from marts.fct_adaptive_signal_rules as rules
inner join marts.fct_adaptive_signals as signals
    using (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope)
where signals.is_surely_better
order by all
"""
_HAS_RELATION = ("popularity_relation", "popularity_confidence", "all")


def prediction_fields(signals: Sequence[Row], rules: Sequence[Row]) -> Row:
    """Fields `signal`, `features` and `prediction` of a router; none if no signal beside popularity is surely better.

    `signals`: those that are. The most accurate one is chosen; among equals one that costs no tokens, then one with a
    single threshold.
    """
    if not signals:
        return {}
    best = max(
        signals,
        key=lambda row: (row["accuracy"], not row["signal_tokens_per_1000"], row["threshold_scope"] == "all"),
    )
    policy = (best["signal"], best["threshold_scope"])
    mine = [row for row in rules if (row["signal"], row["threshold_scope"]) == policy]
    first = mine[0]
    uses_relation = best["signal"] in _HAS_RELATION or best["threshold_scope"] == "per_relation"
    return {
        "signal": best["signal"],
        "features": [*first["predictor_names"], *(["relation"] if uses_relation else [])],
        "prediction": {
            "why": _why(best),
            "held_out": best,
            "signal_prompt": first["signal_prompt"],
            "predictors": first["predictor_names"],
            "means": first["predictor_means"],
            "deviations": first["predictor_deviations"],
            "rules": {row["relation"]: _rule(row) for row in mine},
        },
    }


def _why(best: Row) -> str:
    gains = (
        (name, *(100 * best[f"{column}{end}"] for end in ("", "_ci_low", "_ci_high")))
        for name, column in (
            ("always or never", "gain"),
            ("one threshold on popularity", "gain_over_popularity_all"),
            ("thresholds per relation", "gain_over_popularity_per_relation"),
        )
    )
    said = "; ".join(
        f"over {name} {gain:+.1f} points ({low:+.1f} to {high:+.1f})" for name, gain, low, high in gains
    )
    what = "confidence" if best["signal"] == "confidence" else "the predicted probability"
    return f"{what} is surely better than what needs no prediction: held-out gain {said}"


def _rule(row: Mapping[str, Any]) -> Row:
    rule: Row = {
        "coefficients": row["rule_coefficients"],
        **{side: _segment(row, side) for side in ("below", "above")},
    }
    if math.isfinite(row["threshold_probability"]):  # else always: every probability is below infinity
        rule["threshold"] = row["threshold_probability"]
    return rule


def _segment(row: Mapping[str, Any], side: str) -> Row:
    n = row[f"n_{side}"]
    return {
        "n": n,
        **{f"accuracy_{name}": row[f"n_{side}_{name}"] / n if n else None for name in ("with", "without")},
    }
