"""What the engine works on: items, each with its key columns, its prompt and its request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from longtail.generation.backends.base import Decoding, Identity
from longtail.generation.prompts.endings import FIRST_LINE
from longtail.storage.fingerprints import prompt_hash
from longtail.study.backends import GENERATE, SAMPLE, SCORE

_SCORING = "v1 score"
"""Raised when the same prompt and candidates ought to get other scores: cached ones then no longer count."""
BYTES_PER_TOKEN = 4
_NEW_SHARE = 2
"""A text is taken to have at most this part of its tokens, for the size of batches and the time left."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """A prompt: its text, and passages that the model reads apart from the text (most models read none)."""

    text: str
    passages: tuple[str, ...] = ()

    def hash(self) -> str:
        """SHA-256 of the text as hexadecimal digits.

        With passages, that of a list of such digits, one a line: the text's, then each passage's. SQL does the same.
        """
        if not self.passages:
            return prompt_hash(self.text)
        return prompt_hash("\n".join(map(prompt_hash, (self.text, *self.passages))))


def passages_of(prompts: Sequence[ModelInput]) -> dict[str, Any]:
    """The keyword `passages` of a backend that declares `PASSAGES`; nothing where no prompt has any."""
    apart = [prompt.passages for prompt in prompts]
    return {"passages": apart} if any(apart) else {}


@dataclass(frozen=True)
class Generate:
    """One greedy text of at most `max_new_tokens`, up to `end` (see `prompts.endings`)."""

    max_new_tokens: int
    end: str = FIRST_LINE
    capability: ClassVar[str] = GENERATE
    seeds: ClassVar[tuple[int | None, ...]] = (None,)
    candidates: ClassVar[tuple[str, ...]] = ()
    free: ClassVar[Decoding | None] = None

    @property
    def decoding(self) -> Decoding | None:
        return Decoding(self.max_new_tokens, end=self.end)


@dataclass(frozen=True)
class Sample:
    """`n` texts, each drawn at `temperature` by a seed of its own.

    The seed of text i is 63 bits of the SHA-256 of (`seeded_by`, i): more samples keep the first ones.
    """

    n: int
    temperature: float
    max_new_tokens: int
    seeded_by: tuple[Any, ...]
    end: str = FIRST_LINE
    capability: ClassVar[str] = SAMPLE
    candidates: ClassVar[tuple[str, ...]] = ()
    free: ClassVar[Decoding | None] = None

    @property
    def decoding(self) -> Decoding | None:
        return Decoding(self.max_new_tokens, self.temperature, self.end)

    @property
    def seeds(self) -> tuple[int | None, ...]:
        return tuple(self._seed(number) for number in range(self.n))

    def _seed(self, number: int) -> int:
        text = "\n".join(map(str, (*self.seeded_by, number)))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True)
class Score:
    """The log-likelihood of each candidate behind the prompt; a candidate brings its own leading space.

    With `free`, the model also writes a greedy text behind the prompt. The works of one call share it.
    """

    candidates: tuple[str, ...]
    free: Decoding | None = None
    capability: ClassVar[str] = SCORE
    seeds: ClassVar[tuple[int | None, ...]] = (None,)
    decoding: ClassVar[Decoding | None] = None


Request = Generate | Sample | Score


def how(request: Request, identity: Identity) -> str:
    """What decides a result besides prompt, candidates, weights and seed: as rows say it, and in cache keys."""
    if request.decoding is not None:
        return identity.decoding(request.decoding)
    return f"{_SCORING}, and {identity.decoding(request.free)}" if request.free else _SCORING


def part_tokens(request: Request) -> int:
    """Tokens to compute for one part of a request, behind its prompt: an estimate."""
    if request.decoding is None:
        free = max(1, request.free.max_new_tokens // _NEW_SHARE) if request.free else 0
        return free + sum(
            len(candidate.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1
            for candidate in request.candidates
        )
    return max(1, request.decoding.max_new_tokens // _NEW_SHARE)


class Item(Protocol):
    """One prompt to be asked, and what is asked. The texts of a `Sample` are its parts; others have one part.

    Items that share a prompt and a request, or seeds of it, share their results.
    """

    @property
    def request(self) -> Request: ...

    def prompt(self) -> ModelInput:
        """What the model reads; built anew at each call, never kept."""
        ...

    def key(self, part: int) -> Mapping[str, Any]:
        """The key columns of a part's row, but those of the partition (model, method)."""
        ...
