"""From the results of a device batch to the results of rows, with what each cost.

The texts of a batch share its wall time and its devices' time equally, and so do scored prompts. The computed
tokens of a prompt are charged once, to its first text. The tokens of a prefix that a batch computed for several prompts
are charged to the first of these prompts. All other tokens count as shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import (
    CandidateScore,
    Decoding,
    Failure,
    Generation,
    Scored,
)
from longtail.generation.backends.local.confidence import confidence_of_text, tokens_before
from longtail.generation.backends.local.decode import Written
from longtail.generation.backends.local.device_batches import Finished
from longtail.generation.backends.local.fusion import tokens_of
from longtail.generation.backends.local.scoring import Continuation
from longtail.generation.backends.local.texts import Texts
from longtail.generation.prompts.endings import answer_start
from longtail.scoring.confidence import Confidence

Tokens = tuple[int, ...]
OfPrompt = list[Written] | None
"""The texts of a prompt; None where the model's scores were not finite."""
_NOT_FINITE = Failure("the model's scores are not finite numbers")


@dataclass(frozen=True)
class Row:
    """The prompt's tokens as the model gets them, how many it lost, and a seed for each text."""

    tokens: Tokens
    n_truncated: int
    seeds: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        return len(tokens_of(self.tokens))


@dataclass(frozen=True)
class Candidates:
    """Continuations to score for one row, and how many tokens its prompt lost."""

    row: int
    n_truncated: int
    continuations: list[Continuation]


def accounted_texts(
    done: Finished[OfPrompt],
    asked: Sequence[Sequence[tuple[int, Row]]],
    seeds: Sequence[Sequence[int]],
    texts: Texts,
    decoding: Decoding,
    n_devices: int,
) -> Iterator[tuple[int, list[Generation] | Failure]]:
    """The texts of one device batch: for each of its prompts, those of the rows that asked for it.

    `asked`: by prompt, the rows with their places; `seeds`: by prompt, those that its texts were drawn by.
    """
    n_texts = sum(len(row.seeds) for rows in asked for _, row in rows)
    read = _read(done.results or [], texts, decoding.end)
    share = done.seconds / n_texts
    for place, rows in enumerate(asked):
        written = done.results[place] if done.results else None
        shared = done.shared_tokens[place]
        for i, row in rows:
            if written is None:
                yield i, _reason(done, row.tokens)
                continue
            own = []
            for seed in row.seeds:
                one = written[seeds[place].index(seed)]
                text, confidence, n_reasoning = read[id(one)]
                own.append(
                    Generation(
                        text=text,
                        confidence=confidence,
                        finish_reason=decoding.finish_reason(text, len(one.tokens)),
                        prompt_tokens=row.n_tokens,
                        new_tokens=len(one.tokens),
                        reasoning_tokens=n_reasoning or None,
                        n_truncated_tokens=row.n_truncated,
                        latency_ms=1000 * share,
                        batch_size=n_texts,
                        shared_tokens=shared,
                        device_seconds=share * n_devices,
                    )
                )
                shared = row.n_tokens
            yield i, own


def accounted_scores(
    done: Finished[list[float] | None],
    distinct: Sequence[Tokens],
    rows: Sequence[Sequence[Candidates]],
    n_devices: int,
) -> Iterator[tuple[int, Scored | Failure]]:
    """The scores of one device batch: for each of the prompts in `distinct`, those of its `rows`."""
    n_results = sum(len(rows[index]) for index in done.rows)
    share = done.seconds / n_results
    for place, index in enumerate(done.rows):
        sums = done.results[place] if done.results else None
        rest, shared = iter(sums or ()), done.shared_tokens[place]
        n_tokens = len(tokens_of(distinct[index]))
        for own in rows[index]:
            if sums is None:
                yield own.row, _reason(done, distinct[index])
                continue
            counts = [len(c.tokens) - c.n_unscored for c in own.continuations]
            yield (
                own.row,
                Scored(
                    scores=tuple(CandidateScore(next(rest), n) for n in counts),
                    prompt_tokens=n_tokens,
                    new_tokens=sum(counts),
                    n_truncated_tokens=own.n_truncated,
                    latency_ms=1000 * share,
                    batch_size=n_results,
                    shared_tokens=shared,
                    device_seconds=share * n_devices,
                ),
            )
            shared = n_tokens


def _read(
    written: Sequence[OfPrompt], texts: Texts, end: str
) -> dict[int, tuple[str, Confidence | None, int]]:
    """Texts, their confidence and tokens of reasoning by the identity of what was written: equal samples share it."""
    distinct = {id(one): one for own in written for one in own or ()}
    found = texts.decode([one.tokens for one in distinct.values()])
    return {
        key: (
            text,
            confidence_of_text(one.tokens, one.scores, text, end, texts),
            tokens_before(one.tokens, answer_start(text) or 0, texts),
        )
        for (key, one), text in zip(distinct.items(), found, strict=True)
    }


def _reason(done: Finished[Any], tokens: Tokens) -> Failure:
    """Why a prompt of a batch has no result."""
    if done.results is None:
        return Failure(f"out of memory with one prompt of {len(tokens)} tokens")
    return _NOT_FINITE
