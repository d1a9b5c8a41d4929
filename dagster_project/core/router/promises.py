"""Answer, retrieve or abstain: the thresholds by which a router keeps a risk that its user set (SPEC §11).

What belongs here: a router file's `promises` and what they decide. What does not: how thresholds are found
(`statistics.risk_coverage`), and decisions without such a risk (`decisions`). It needs the standard library alone.

With confidence, memory's answer is given if its confidence is above the threshold, else the passage's answer if that
one's is. With popularity alone, memory's answer is given if popularity is above the threshold.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.core.router.sealed import number

CONFIDENCE, POPULARITY = "confidence", "popularity"
ANSWER, RETRIEVE, ABSTAIN = "answer", "retrieve", "abstain"

Promises = Mapping[str, Sequence[tuple[float, float, int]]]
"""By signal, from strict to lax: promised risk, threshold (above it is answered), questions of the study above it."""


def promises_of(document: Mapping[str, Any]) -> Promises:
    """The promises of a router file's field of that name. Errors: those of a file that is not of its form."""
    return {signal: tuple(map(_step, document.get(signal, ()))) for signal in (CONFIDENCE, POPULARITY)}


def _step(step: Mapping[str, Any]) -> tuple[float, float, int]:
    threshold = -math.inf if step["threshold"] is None else number(step["threshold"])
    return number(step["promised_risk"]), threshold, operator.index(step["n_answered"])


def outcome(
    promises: Promises, greatest_risk: float, popularity: float | None, confidence: float | None,
    passage_confidence: float | None,
) -> tuple[str, int, str]:  # fmt: skip
    """What to do, how many of the study's questions the threshold answers, and why."""
    signal, value = (POPULARITY, popularity) if confidence is None else (CONFIDENCE, confidence)
    if value is None:
        return ABSTAIN, 0, "confidence and popularity are unknown, so no risk can be promised"
    kept = [step for step in promises[signal] if step[0] <= greatest_risk]
    if not kept:
        return (
            ABSTAIN,
            0,
            f"no threshold on {signal} promises that at most {greatest_risk:.4g} of the answers are wrong",
        )
    _, threshold, n = kept[-1]
    promise = f"which promises that at most {greatest_risk:.4g} of the answers are wrong"
    if threshold == -math.inf:
        return ANSWER, n, f"every question is answered from memory, {promise}"
    named = f"{threshold:,.6g}, {promise}"
    if value > threshold:
        return ANSWER, n, f"{signal} is above {named}"
    if signal == POPULARITY:
        return ABSTAIN, n, f"popularity is not above {named}; what it says of a passage's answer is not known"
    if passage_confidence is None:
        return RETRIEVE, n, f"confidence is not above {named}; passage_confidence may be"
    if passage_confidence > threshold:
        return RETRIEVE, n, f"passage_confidence is above {named}"
    return ABSTAIN, n, f"neither confidence nor passage_confidence is above {named}"
