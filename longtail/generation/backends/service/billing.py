"""Tokens and dollars of a request: upper bounds before it is sent, and each row's share once its answer is there."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from longtail.generation.backends.base import Generation
from longtail.generation.backends.service.redaction import Redactor
from longtail.generation.backends.service.replies import Answered
from longtail.generation.backends.service.wire import LONGEST_TOKEN, Answer, Choice, Post
from longtail.generation.prompts.endings import kept_part
from longtail.scoring.confidence import Confidence, confidence_of_part
from longtail.study.prices import Price


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

    @property
    def characters_of_one(self) -> int:
        """No text of so many tokens is longer."""
        return LONGEST_TOKEN * self.new_tokens_of_one


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
) -> list[Generation]:
    """The rows of one answer, whose decoding stops at `end`; a text that is longer than was asked for is cut.

    The first bears the prompt, which the others share, and the surplus choices.
    """
    answer, kept = answered.answer, answered.answer.choices[: most.n]
    prompt_tokens, new_tokens = counted(answer, most)
    counts = answer.tokens_by_choice(new_tokens)
    thoughts = answer.tokens_by_choice(answer.reasoning_tokens or 0, are_reasoning=True)
    surplus = sum(counts[len(kept) :])

    def cut(text: str | None) -> str | None:
        return redactor.answer(text[: most.characters_of_one]) if text else None

    return [
        Generation(
            text=cut(choice.text) or "",
            has_text=choice.text is not None,
            confidence=_confidence(choice, end),
            finish_reason=choice.finish_reason,
            refusal=cut(choice.refusal),
            reasoning=cut(choice.reasoning),
            served_model=answer.model and redactor.answer(answer.model),
            prompt_tokens=prompt_tokens,
            new_tokens=counts[i],
            n_truncated_tokens=0,  # a service refuses what is too long
            latency_ms=1000 * answered.seconds / len(kept),
            batch_size=len(kept),
            shared_tokens=prompt_tokens if i else answer.cached_tokens,
            cost_usd=_cost(price, 0 if i else prompt_tokens, counts[i] + (0 if i else surplus)),
            reasoning_tokens=thoughts[i] or None,
            reasoning_usd=_cost(price, 0, thoughts[i]) if thoughts[i] else None,
        )
        for i, choice in enumerate(kept)
    ]


def _confidence(choice: Choice, end: str) -> Confidence | None:
    text = choice.text or ""
    return confidence_of_part(text, choice.tokens, *kept_part(text, end))


def _cost(price: Price | None, prompt_tokens: int, new_tokens: int) -> float | None:
    return None if price is None else float(price.exact_usd(prompt_tokens, new_tokens))
