"""Tokens and dollars: money is set aside before a request goes, and each row's share settled once its answer is there."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction

from longtail.generation.backends.base import Generation
from longtail.generation.backends.service.wire import Answer, Answered, Post, Redactor
from longtail.generation.prompts.endings import cut_span
from longtail.scoring.model_answer import confidence_of_part
from longtail.study.prices import Price

_MARGIN = Fraction(1, 10**9)
"""This share of the limit stays unused: rows carry costs rounded to floats, whose sum must not exceed it either."""


class Budget:
    """Settled + open + set aside never exceeds the limit; None: no limit. Amounts are exact, in US dollars.

    `open` may have been billed without our being told: these are requests whose answer was lost.
    """

    def __init__(self, limit_usd: float | None) -> None:
        self._limit = None if limit_usd is None else Fraction(limit_usd) * (1 - _MARGIN)
        self._changed = threading.Condition()
        self._aside = Fraction(0)
        self.settled = Fraction(0)
        self.open = Fraction(0)

    def reserve(self, usd: Fraction, *, wait: bool = False) -> bool:
        """Set `usd` aside; False where it does not fit, with `wait` only once nothing else is set aside."""
        with self._changed:
            while self._limit is not None and self.settled + self.open + self._aside + usd > self._limit:
                if not wait or not self._aside:
                    return False
                self._changed.wait()
            self._aside += usd
            return True

    def book(
        self, reserved: Fraction, *, billed: Fraction = Fraction(0), lost: Fraction = Fraction(0)
    ) -> None:
        """Of what was set aside so much was billed, or may have been: its answer is lost, and nobody will say."""
        with self._changed:
            self._aside -= reserved
            self.settled += billed
            self.open += lost
            self._changed.notify_all()


class Purchase:
    """The money of one request and of its repetitions; one thread at a time."""

    def __init__(self, budget: Budget, usd: Fraction) -> None:
        self._budget, self._usd = budget, usd
        self._is_set_aside = False

    def set_aside(self, *, wait: bool = False) -> bool:
        """Have the money for one attempt; False where the budget does not allow it."""
        self._is_set_aside = self._is_set_aside or self._budget.reserve(self._usd, wait=wait)
        return self._is_set_aside

    def leave_open(self) -> None:
        """The attempt may have been billed; a next one needs money of its own. Nothing happens without money."""
        if self._is_set_aside:
            self._budget.book(self._usd, lost=self._usd)
            self._is_set_aside = False

    def settle(self, billed: Fraction = Fraction(0)) -> None:
        """The bill is there; 0 where no further attempt is made and the last one was not billed."""
        if self._is_set_aside:
            self._budget.book(self._usd, billed=billed)
            self._is_set_aside = False


@dataclass(frozen=True)
class Bound:
    """The most tokens of a request, and what they cost."""

    prompt_tokens: int
    new_tokens_of_one: int
    n: int
    usd: Fraction

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.n * self.new_tokens_of_one


def bound(post: Post, api: str, price: Price | None) -> Bound:
    """The most that a request may take, from a server that gives what is asked for."""
    prompt, new = post.most_prompt_tokens(api), post.decoding.max_new_tokens
    return Bound(prompt, new, post.n, exact_usd(price, prompt, post.n * new))


def count_tokens(answer: Answer, most: Bound) -> tuple[int, int]:
    """Prompt and new tokens by the server's usage; their upper bounds where it tells none."""
    most_new = most.new_tokens_of_one * max(len(answer.choices), most.n)
    return (
        most.prompt_tokens if answer.prompt_tokens is None else answer.prompt_tokens,
        most_new if answer.new_tokens is None else answer.new_tokens,
    )


def exact_usd(price: Price | None, prompt_tokens: int, new_tokens: int) -> Fraction:
    """A bill; 0 where no price is known."""
    return Fraction(0) if price is None else price.exact_usd(prompt_tokens, new_tokens)


def generations(
    answered: Answered, most: Bound, price: Price | None, redactor: Redactor, end: str
) -> list[Generation]:
    """The rows of one answer, whose decoding stops at `end`.

    The first bears the prompt, which the others share, and the surplus choices.
    """
    answer, choices = answered.answer, answered.answer.choices[: most.n]
    prompt_tokens, new_tokens = count_tokens(answer, most)
    counts = answer.tokens_by_choice(new_tokens)
    thoughts = answer.tokens_by_choice(answer.reasoning_tokens or 0, are_reasoning=True)
    surplus = sum(counts[len(choices) :])
    confidences = [
        confidence_of_part(choice.text or "", choice.tokens, *cut_span(choice.text or "", end))
        for choice in choices
    ]
    return [
        Generation(
            text=redactor.answer(choice.text or ""),
            has_text=choice.text is not None,
            confidence=confidences[i],
            finish_reason=choice.finish_reason,
            refusal=choice.refusal and redactor.answer(choice.refusal),
            reasoning=choice.reasoning and redactor.answer(choice.reasoning),
            served_model=answer.model and redactor.answer(answer.model),
            prompt_tokens=prompt_tokens,
            new_tokens=counts[i],
            n_truncated_tokens=0,  # a service refuses what is too long
            latency_ms=1000 * answered.seconds / len(choices),
            batch_size=len(choices),
            shared_tokens=prompt_tokens if i else answer.cached_tokens,
            cost_usd=_cost(price, 0 if i else prompt_tokens, counts[i] + (0 if i else surplus)),
            reasoning_tokens=thoughts[i] or None,
            reasoning_usd=_cost(price, 0, thoughts[i]) if thoughts[i] else None,
        )
        for i, choice in enumerate(choices)
    ]


def _cost(price: Price | None, prompt_tokens: int, new_tokens: int) -> float | None:
    return None if price is None else float(price.exact_usd(prompt_tokens, new_tokens))
