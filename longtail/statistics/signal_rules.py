"""The rules by which a router decides by confidence or a prediction: coefficients, thresholds, and right answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from longtail.statistics.prediction_design import PREDICTORS
from longtail.statistics.signal_fit import Model, Values, fit_model, probabilities
from longtail.statistics.signal_policies import (
    ALL,
    CONFIDENCE,
    PER_RELATION,
    SCOPES,
    Asked,
    relation_rows,
    thresholds,
)
from longtail.statistics.signal_questions import LOG_CONFIDENCE, PREDICTED, Pair

FEATURES = dict(
    zip((*PREDICTORS, LOG_CONFIDENCE), ("popularity", "consistency", "certainty", CONFIDENCE), strict=True)
)
"""What `decide` of a router calls the predictors. Popularity and confidence enter by their natural logarithms."""
_ITSELF = Model(np.zeros(1), np.ones(1), np.array([0.0, 1.0]), np.empty((0, 2)))
"""Of confidence as the signal, which is compared with the threshold as it is."""

Row = dict[str, Any]


def rules_of(pair: Pair, asked: Asked, at: int) -> Iterator[Row]:
    """One row per signal, scope and relation, and one for relation `all`. `at`: the pair's place in `asked`."""
    ones = np.ones((1, len(asked.parametric)))
    predictors = {signal.name: [FEATURES[one] for one in signal.numeric] for signal in PREDICTED}
    predictors[CONFIDENCE] = [CONFIDENCE]
    fitted = {
        signal: (probabilities(features, asked.parametric, ones), fit_model(features, asked.parametric))
        for signal, features in asked.features.items()
    }
    if CONFIDENCE in asked.numbers:
        fitted[CONFIDENCE] = (asked.numbers[CONFIDENCE][None], _ITSELF)
    for signal, (values, model) in fitted.items():
        limits = _limits(asked, values, asked.differences[at])
        for scope, (relation, rows) in itertools.product(SCOPES, _relations(asked)):
            limit = limits[relation if scope == PER_RELATION else ALL]
            yield {
                **pair.key, "signal": signal, "threshold_scope": scope, "relation": relation,
                "signal_prompt": pair.signal_prompt, "n_questions": pair.counts["n_questions"],
                "predictor_names": predictors[signal], "predictor_means": model.mean.tolist(),
                "predictor_deviations": model.deviation.tolist(),
                "rule_coefficients": _coefficients(model, asked, signal, rows).tolist(),
                "threshold_probability": float(limit),
                **_sides(pair, rows, values[0, rows] < limit),
            }  # fmt: skip


def _relations(asked: Asked) -> list[tuple[str, slice]]:
    own = [(str(asked.relation[rows.start]), rows) for rows in relation_rows(asked.relation)]
    return [(ALL, slice(0, len(asked.relation))), *own]


def _limits(asked: Asked, values: Values, difference: Values) -> dict[str, float]:
    found = {}
    for relation, rows in _relations(asked):
        mine = values[:, rows]
        (limit,) = thresholds(mine, np.ones(mine.shape, dtype=bool), [difference[None, rows]])
        found[relation] = float(limit[0])
    return found


def _coefficients(model: Model, asked: Asked, signal: str, rows: slice) -> Values:
    """Intercept and slopes; those in common for relation `all`, which is for questions without a known relation."""
    group = asked.features[signal].group if signal in asked.features else None
    if group is None or rows == slice(0, len(asked.relation)):
        return model.common
    return np.asarray(model.common + model.own[group[rows.start]])


def _sides(pair: Pair, rows: slice, is_below: Values) -> Row:
    found: Row = {}
    for side, chosen in (("below", is_below), ("above", ~is_below)):
        found[f"n_{side}"] = int(chosen.sum())
        for name, method in (("with", "retrieval"), ("without", "parametric")):
            found[f"n_{side}_{name}"] = int(pair.columns[method][rows][chosen].sum())
    return found
