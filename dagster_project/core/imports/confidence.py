"""How sure a model was of an imported answer: lists of its tokens' numbers, or the numbers of the answer (SPEC §11)."""

from __future__ import annotations

import json
import math
from typing import Any

from dagster_project.core.imports.table_rows import Row
from dagster_project.core.scoring.confidence import Confidence, confidence_of

_PROBABILITY = (0.0, 1.0, "a probability above 0, and at most 1,")
_LOGARITHM = (-math.inf, 0.0, "the logarithm of a probability")
_ENTROPY = (-1e-9, math.inf, "an entropy in nats, of at least 0,")
_LISTS = {
    "token_probabilities": _PROBABILITY,
    "token_log_probabilities": _LOGARITHM,
    "token_entropies": _ENTROPY,
}
_NUMBERS = {
    "sum_log_probability": _LOGARITHM,
    "least_probability": _PROBABILITY,
    "first_probability": _PROBABILITY,
    "first_margin": (-1e-9, 1.0, "a difference of probabilities"),
    "mean_entropy": _ENTROPY,
}
_BOUNDS = {**_LISTS, **_NUMBERS}
"""Meaning → what lies below the least value, the largest value, and what is expected."""
MEANINGS = (*_LISTS, "confidence_tokens", *_NUMBERS)


def confidence_of_row(row: Row, new_tokens: int | None, *, has_end_token: bool) -> Confidence | None:
    """The confidence that a row gives, None where it gives none. With `has_end_token`, lists end with the end token's.

    Errors: `RefusedError` where a value is none, or lists differ in length from each other or from `new_tokens`.
    """
    lists = {meaning: _list(row, meaning, has_end_token) for meaning in _LISTS}
    probabilities = lists["token_probabilities"]
    logs = [math.log(one) for one in probabilities] if probabilities else lists["token_log_probabilities"]
    if logs is None:
        return _stated(row, new_tokens)
    n_tokens = new_tokens or len(logs)
    for meaning, numbers in lists.items():
        if numbers is not None and len(numbers) != n_tokens:
            hint = "; end_token: true leaves out the end token's" if len(numbers) == n_tokens + 1 else ""
            raise row.refused(meaning, f"{len(numbers)} numbers for {n_tokens} tokens{hint}")
    entropies = lists["token_entropies"]
    return confidence_of(logs, None, math.fsum(entropies) / n_tokens if entropies else None)


def _stated(row: Row, new_tokens: int | None) -> Confidence | None:
    numbers = {name: _number(row, name, row.values.get(name)) for name in _NUMBERS}
    if not any(number is not None for number in numbers.values()):
        return None
    n_tokens = row.count("confidence_tokens") or new_tokens
    total = numbers.pop("sum_log_probability")
    if not n_tokens or total is None:
        raise row.refused("sum_log_probability", "it is expected together with confidence_tokens")
    return Confidence(n_tokens, total, **numbers)


def _list(row: Row, meaning: str, has_end_token: bool) -> list[float] | None:
    value = row.values.get(meaning)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise row.refused(meaning, f"a list of numbers was expected, not {value[:40]!r}") from None
    if value is None or value == "" or value != value:
        return None
    if not isinstance(value, list):
        raise row.refused(meaning, f"a list of numbers was expected, not {str(value)[:40]!r}")
    if (
        meaning == "token_probabilities"
        and any(value)
        and all(isinstance(p, int | float) and p <= 0 for p in value)
    ):
        column = row.columns[meaning]
        raise row.refused(
            meaning,
            "no number is above 0, so they are logarithms; say so in the study: columns: {token_probabilities:"
            f" null, token_log_probabilities: {column}}}",
        )
    found = [_number(row, meaning, one) for one in value]
    if None in found:
        raise row.refused(meaning, f"number {found.index(None) + 1} of the list is missing")
    return [one for one in found if one is not None][: len(found) - has_end_token]


def _number(row: Row, meaning: str, value: Any) -> float | None:
    """The number; None where there is none. Errors: `RefusedError`."""
    if value is None or value == "":
        return None
    low, high, what = _BOUNDS[meaning]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low < number <= high:
        raise row.refused(meaning, f"{what} was expected, not {str(value)[:40]}")
    return number
