"""The contract between the platform and whatever generates text: a batch in, results in its order.

What belongs here: the protocol, its values, and what backends must declare. What does not: any backend,
prompts, caching and scoring. Nothing here imports an engine.

A backend declares its capabilities, and a study that asks for one that is missing fails before anything
loads. Today's backends generate greedily; `SAMPLE` (several seeded answers to a prompt) and `SCORE`
(log-probabilities of given continuations) are named so that the backends which gain them can say so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

GENERATE = "generate"
SAMPLE = "sample"
SCORE = "score"
CAPABILITIES = frozenset({GENERATE, SAMPLE, SCORE})

_GENERATION_VERSION = 1
"""Raised when the same prompt and decoding ought to give another text: cached rows then no longer count."""


@dataclass(frozen=True)
class Decoding:
    """Greedy decoding that ends after `max_new_tokens`, at the end token, or once the first line is complete.

    The first line may follow one empty line: `cut_answer` gives the same with and without that early end
    (SPEC §3).
    """

    max_new_tokens: int

    @property
    def key(self) -> str:
        """What of the decoding decides the text, for cache keys."""
        return f"v{_GENERATION_VERSION} greedy first_line max_new_tokens={self.max_new_tokens}"


@dataclass(frozen=True)
class Identity:
    """Which weights answer, and through which engine.

    `revision` is a hub commit, or the SHA-256 of the weights', configuration's and tokenizer's files.
    """

    revision: str
    dtype: str
    quantisation: str
    engine: str
    engine_version: str

    @property
    def weights(self) -> str:
        """SHA-256 over revision, dtype and quantisation: the part without the engine."""
        text = "\n".join((self.revision, self.dtype, self.quantisation))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Generation:
    """One generated text, uncut, with its accounts.

    `new_tokens` leaves out the end token. `latency_ms` is the row's share of its batch's wall time,
    `batch_size` the rows of that batch.
    """

    text: str
    prompt_tokens: int
    new_tokens: int
    n_truncated_tokens: int
    latency_ms: float
    batch_size: int


@dataclass(frozen=True)
class Failure:
    """A prompt that the backend could not answer; the others of its batch are unharmed."""

    reason: str


@dataclass(frozen=True)
class Usage:
    """What a backend runs on, and the most memory held so far (of the device; on a CPU, of the process)."""

    device: str
    peak_memory_mb: float


class Backend(Protocol):
    """A loaded model. Constructing one loads it; errors while loading are `BackendError`."""

    capabilities: frozenset[str]
    identity: Identity

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        """Answer each prompt, in order. Errors that concern all prompts: `BackendError`."""
        ...

    def usage(self) -> Usage:
        """Device and peak memory."""
        ...

    def close(self) -> None:
        """Release the model; the backend is not used afterwards."""
        ...
