"""How sure a model was of an answer, from the probabilities of the answer's tokens: SPEC §11.

Means and their exponential are computed by dbt. Of what OpenAI-compatible services give, what is left out, or does not
fit the text, is not known: no answer fails for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Confidence:
    """At temperature 1, whatever the sampling; the end token and what is cut off left out.

    `confidence_tokens` is at least 1. Logarithms are natural. `first_margin` is the probability of the likeliest first
    token minus that of the second; `mean_entropy` is in nats, over the whole vocabulary. None: not known.
    """

    confidence_tokens: int
    sum_log_probability: float
    least_probability: float | None = None
    first_probability: float | None = None
    first_margin: float | None = None
    mean_entropy: float | None = None


def confidence_of(
    log_probabilities: Sequence[float], first_margin: float | None = None, mean_entropy: float | None = None
) -> Confidence | None:
    """The confidence of an answer of these tokens, to seven digits; None without tokens."""
    if not log_probabilities:
        return None
    logs = [min(0.0, log) for log in log_probabilities]
    return Confidence(
        len(logs),
        _round(math.fsum(logs)),
        _round(math.exp(min(logs))),
        _round(math.exp(logs[0])),
        None if first_margin is None else _round(first_margin),
        None if mean_entropy is None else _round(mean_entropy),
    )


def _round(number: float) -> float:
    return float(f"{number:.7g}")


Token = tuple[str, float, float | None]
"""A token's text, its log-probability, and the probability of the likeliest token minus that of the second."""


def read_tokens(choice: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of a choice, in the form of `completions` or of `chat`; none where it does not give them."""
    given = choice.get("logprobs")
    try:
        if not isinstance(given, Mapping):
            return ()
        if given.get("content") is not None:
            return tuple(
                (
                    str(token["token"]),
                    _number(token["logprob"]),
                    _margin([t["logprob"] for t in token.get("top_logprobs") or ()]),
                )
                for token in given["content"]
            )
        rows = zip(given["tokens"], given["token_logprobs"], given["top_logprobs"], strict=True)
        return tuple((str(text), _number(log), _margin([*(top or {}).values()])) for text, log, top in rows)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def confidence_of_part(text: str, tokens: tuple[Token, ...], start: int, stop: int) -> Confidence | None:
    """The confidence of text[start:stop]; None where the tokens are not those of the text."""
    places = list(itertools.accumulate((len(token) for token, *_ in tokens), initial=0))
    if not "".join(token for token, *_ in tokens).startswith(text):
        return None
    spans = zip(tokens, places, places[1:], strict=False)
    tokens_of_part = [token for token, first, after in spans if first < stop and after > max(first, start)]
    return (
        confidence_of([log for _, log, _ in tokens_of_part], tokens_of_part[0][2]) if tokens_of_part else None
    )


def _number(value: Any) -> float:
    """Errors: `ValueError` where it is no log-probability; services round, so that some are a little above 0."""
    number = float(value)
    if not -math.inf < number < 1e-3:
        raise ValueError(f"{number} is no log-probability")
    return number


def _margin(logs: list[Any]) -> float | None:
    best = sorted((math.exp(_number(log)) for log in logs), reverse=True)[:2]
    return best[0] - best[1] if len(best) > 1 else None
