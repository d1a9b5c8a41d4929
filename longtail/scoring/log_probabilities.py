"""The confidence of a text from its tokens' log-probabilities, as OpenAI-compatible services give them (SPEC §11).

What is left out, or does not fit the text, is not known: no answer fails for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from longtail.scoring.confidence import Confidence, confidence_of

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
                    str(one["token"]),
                    _number(one["logprob"]),
                    _margin([t["logprob"] for t in one.get("top_logprobs") or ()]),
                )
                for one in given["content"]
            )
        rows = zip(given["tokens"], given["token_logprobs"], given["top_logprobs"], strict=True)
        return tuple((str(text), _number(own), _margin([*(top or {}).values()])) for text, own, top in rows)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def confidence_of_part(text: str, tokens: tuple[Token, ...], start: int, stop: int) -> Confidence | None:
    """The confidence of text[start:stop]; None where the tokens are not those of the text."""
    places = list(itertools.accumulate((len(token) for token, *_ in tokens), initial=0))
    if not "".join(token for token, *_ in tokens).startswith(text):
        return None
    spans = zip(tokens, places, places[1:], strict=False)
    kept = [token for token, first, after in spans if first < stop and after > max(first, start)]
    return confidence_of([log for _, log, _ in kept], kept[0][2]) if kept else None


def _number(value: Any) -> float:
    """Errors: `ValueError` where it is no log-probability; services round, so that some are a little above 0."""
    number = float(value)
    if not -math.inf < number < 1e-3:
        raise ValueError(f"{number} is no log-probability")
    return number


def _margin(logs: list[Any]) -> float | None:
    best = sorted((math.exp(_number(log)) for log in logs), reverse=True)[:2]
    return best[0] - best[1] if len(best) > 1 else None
