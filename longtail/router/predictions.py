"""Whether to retrieve, by confidence or the predicted probability that the model's own answer is right.

Like `decisions`, it needs the standard library alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from longtail.router.sealed import number

POPULARITY, CONSISTENCY, CERTAINTY = "popularity", "consistency", "certainty"
CONFIDENCE = "confidence"
LEAST_CONFIDENCE = 1e-30
"""A confidence below it has this one's logarithm, as in the fit."""
DECIMALS = 9
"""Probabilities are rounded so far before they are compared, as in the fit."""

Outcome = TypeVar("Outcome")
Make = Callable[[bool, Mapping[str, Any], str], Outcome]
"""From whether to retrieve, the counted questions and the reason: a decision."""


@dataclass(frozen=True, slots=True)
class _Rule(Generic[Outcome]):
    """The logit is `intercept` plus `slopes` times popularity, consistency, certainty and confidence; None: not needed.

    A probability (or a confidence that is the signal itself) below `threshold` gets `below`.
    """

    intercept: float
    slopes: tuple[float | None, ...]
    threshold: float
    below: Outcome
    above: Outcome


@dataclass(frozen=True, slots=True)
class Prediction(Generic[Outcome]):
    """A signal beside popularity. `predictors`: popularity, consistency, certainty, confidence, as far as needed.

    Of popularity and confidence the logarithms count. `is_confidence`: the signal is confidence itself.
    """

    predictors: tuple[str, ...]
    is_confidence: bool
    _rules: Mapping[str | None, _Rule[Outcome]]
    _unknown: _Rule[Outcome]

    def decide(
        self,
        popularity: float | None,
        relation: str | None,
        consistency: float | None,
        certainty: float | None,
        confidence: float | None,
    ) -> Outcome | None:
        """The decision, or None if a predictor is unknown; popularity 0 has no logarithm."""
        rule = self._rules.get(relation, self._unknown)
        if self.is_confidence:
            if confidence is None:
                return None
            return rule.below if confidence < rule.threshold else rule.above
        values = (
            math.log(popularity) if popularity else None,
            consistency,
            certainty,
            None if confidence is None else math.log(max(confidence, LEAST_CONFIDENCE)),
        )
        logit = rule.intercept
        for value, slope in zip(values, rule.slopes, strict=True):
            if slope is None:
                continue
            if value is None:
                return None
            logit += slope * value
        probability = round(0.5 * (1 + math.tanh(logit / 2)), DECIMALS)
        return rule.below if probability < rule.threshold else rule.above


def prediction_of(
    document: Mapping[str, Any], is_confidence: bool, make: Make[Outcome]
) -> Prediction[Outcome]:
    """The prediction of a router file's field of that name. Errors: those of a file that is not of its form."""
    what = (
        "confidence is" if is_confidence else "the probability that the answer is right without retrieval is"
    )
    rules: dict[str | None, _Rule[Outcome]] = {
        relation: _rule(document, rule, what, f"relation {relation}", make)
        for relation, rule in document["rules"].items()
    }
    of_all = document["rules"]["all"]
    rules["all"] = rules[None] = _rule(document, of_all, what, "all relations", make)
    unknown = _rule(document, of_all, what, "all relations (this one is unknown)", make)
    return Prediction(tuple(document["predictors"]), is_confidence, rules, unknown)


def _rule(
    document: Mapping[str, Any], rule: Mapping[str, Any], what: str, where: str, make: Make[Outcome]
) -> _Rule[Outcome]:
    """Standardisation goes into the coefficients, so that a decision only multiplies and adds."""
    intercept, *slopes = map(number, rule["coefficients"])
    scales = [
        (slope, number(mean), number(deviation))
        for slope, mean, deviation in zip(slopes, document["means"], document["deviations"], strict=True)
    ]
    intercept -= sum(slope * mean / deviation for slope, mean, deviation in scales)
    by_name = {
        name: slope / deviation
        for name, (slope, _, deviation) in zip(document["predictors"], scales, strict=True)
    }
    threshold = number(rule["threshold"]) if "threshold" in rule else math.inf
    named = f"{threshold:.4g}, the threshold for {where}"
    return _Rule(
        intercept,
        tuple(by_name.get(name) for name in (POPULARITY, CONSISTENCY, CERTAINTY, CONFIDENCE)),
        threshold,
        make(True, rule["below"], f"{what} below {named}" if threshold < math.inf else f"always retrieve for {where}"),
        make(False, rule["above"], f"{what} not below {named}"),
    )  # fmt: skip
