"""Tokens and dollars of a request: their upper bounds before it is sent, and each row's share once its answer is there.

What belongs here: bounds, counts, shares; pure functions. What does not: setting money aside (`budget`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dagster_project.core.generation.backends.base import Failure, Generation
from dagster_project.core.generation.backends.service.redaction import Redactor
from dagster_project.core.generation.backends.service.replies import Answered
from dagster_project.core.generation.backends.service.wire import Answer, Post
from dagster_project.core.generation.prompts.endings import kept_part
from dagster_project.core.scoring.log_probabilities import confidence_of_part
from dagster_project.core.study.prices import Price


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


def counted(answer: Answer, most: Bound) -> tuple[int, int]:
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
) -> list[Generation] | Failure:
    """The rows of one answer, whose decoding stops at `end`.

    The first bears the prompt, which the others share, and the surplus choices.
    """
    answer, kept = answered.answer, answered.answer.choices[: most.n]
    withheld = next((choice.withheld for choice in kept if choice.withheld), None)
    if withheld:
        return Failure(withheld)
    prompt_tokens, new_tokens = counted(answer, most)
    counts = answer.tokens_by_choice(new_tokens)
    surplus = sum(counts[len(kept) :])
    return [
        Generation(
            text=redactor.answer(choice.text),
            confidence=confidence_of_part(choice.text, choice.tokens, *kept_part(choice.text, end)),
            prompt_tokens=prompt_tokens,
            new_tokens=counts[i],
            n_truncated_tokens=0,  # a service refuses what is too long
            latency_ms=1000 * answered.seconds / len(kept),
            batch_size=len(kept),
            shared_tokens=prompt_tokens if i else answer.cached_tokens,
            cost_usd=_cost(price, 0 if i else prompt_tokens, counts[i] + (0 if i else surplus)),
        )
        for i, choice in enumerate(kept)
    ]


def _cost(price: Price | None, prompt_tokens: int, new_tokens: int) -> float | None:
    return None if price is None else float(price.exact_usd(prompt_tokens, new_tokens))
