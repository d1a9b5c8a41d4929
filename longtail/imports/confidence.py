"""How sure a model was of an imported answer: lists of its tokens' numbers, or the numbers of the answer (SPEC §11)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

from longtail.imports.table_rows import Row
from longtail.scoring.confidence import Confidence, confidence_of

Optional = Callable[[str, Callable[[], Any]], Any]
"""Gives what is read of the column of a meaning; None where it cannot be read."""
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
    "mean_log_probability": _LOGARITHM,
    "least_probability": _PROBABILITY,
    "least_log_probability": _LOGARITHM,
    "first_probability": _PROBABILITY,
    "first_log_probability": _LOGARITHM,
    "first_margin": (-1e-9, 1.0, "a difference of probabilities"),
    "mean_entropy": _ENTROPY,
}
_BOUNDS = {**_LISTS, **_NUMBERS}
"""Meaning → what lies below the least value, the largest value, and what is expected."""
MEANINGS = (*_LISTS, "confidence_tokens", *_NUMBERS)


def confidence_of_row(
    row: Row, optional: Optional, new_tokens: int | None, *, has_end_token: bool
) -> Confidence | None:
    """The confidence that a row gives, None where it gives none that can be read. With `has_end_token`, lists end with
    the end token's. A list that has not as many numbers as the answer has tokens cannot be read."""

    def numbers(meaning: str, n_tokens: int | None) -> list[float] | None:
        found: list[float] | None = optional(meaning, lambda: _list(row, meaning, n_tokens, has_end_token))
        return found

    probabilities = numbers("token_probabilities", new_tokens)
    logs = [math.log(one) for one in probabilities or ()] or numbers("token_log_probabilities", new_tokens)
    if not logs:
        return _stated(row, optional, new_tokens)
    entropies = numbers("token_entropies", len(logs))
    return confidence_of(logs, None, math.fsum(entropies) / len(logs) if entropies else None)


def goes_on(text: str, confidence_tokens: int) -> bool:
    """Whether so many tokens are more than the answer, the first line of `text`, needs: they are of what follows, too.

    A tokenizer of a language model rarely needs more than one token for two characters.
    """
    line, _, rest = text.strip().partition("\n")
    return bool(rest) or confidence_tokens > len(line) / 2 + 2


def _stated(row: Row, optional: Optional, new_tokens: int | None) -> Confidence | None:
    def number(name: str) -> float | None:
        found: float | None = optional(name, lambda: _number(name, row.values.get(name)))
        return found

    numbers = {name: number(name) for name in _NUMBERS}
    given = [name for name, value in numbers.items() if value is not None]
    n_tokens = optional("confidence_tokens", lambda: row.count("confidence_tokens")) or new_tokens
    total, mean = (numbers.pop(name) for name in ("sum_log_probability", "mean_log_probability"))
    if total is None and mean is not None and n_tokens:
        total = mean * n_tokens
    for part in ("least", "first"):
        logarithm = numbers.pop(f"{part}_log_probability")
        if logarithm is not None and numbers[f"{part}_probability"] is None:
            numbers[f"{part}_probability"] = max(math.exp(logarithm), sys.float_info.min)
    if n_tokens and total is not None:
        return Confidence(n_tokens, total, **numbers)

    def refuse() -> None:
        raise ValueError("confidence_tokens is expected with it, and sum_log_probability or mean_log_probability")

    return optional(given[0], refuse) if given else None


def _list(row: Row, meaning: str, n_tokens: int | None, has_end_token: bool) -> list[float] | None:
    """The numbers of a list; None where there are none. Errors: `ValueError`."""
    value = row.values.get(meaning)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"a list of numbers was expected, not {value[:40]!r}") from None
    if value in (None, "", []) or value != value:
        return None
    if not isinstance(value, list):
        raise ValueError(f"a list of numbers was expected, not {str(value)[:40]!r}")
    if (
        meaning == "token_probabilities"
        and any(value)
        and all(isinstance(p, int | float) and p <= 0 for p in value)
    ):
        raise ValueError(
            "no number is above 0, so they are logarithms; say so in the study: columns: {token_probabilities:"
            f" null, token_log_probabilities: {row.columns[meaning]}}}"
        )
    found = [_number(meaning, one) for one in value]
    if None in found:
        raise ValueError(f"number {found.index(None) + 1} of the list is missing")
    kept = [one for one in found if one is not None][: len(found) - has_end_token]
    if n_tokens and len(kept) != n_tokens:
        hint = "; end_token: true leaves out the end token's" if len(kept) == n_tokens + 1 else ""
        raise ValueError(f"{len(kept)} numbers for {n_tokens} tokens{hint}")
    return kept


def _number(meaning: str, value: Any) -> float | None:
    """The number; None where there is none. Errors: `ValueError`."""
    if value is None or value == "":
        return None
    low, high, what = _BOUNDS[meaning]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low < number <= high:
        raise ValueError(f"{what} was expected, not {str(value)[:40]}")
    return number
