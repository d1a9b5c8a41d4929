"""The contract between the platform and whatever generates text: a batch in, results in its order.

A backend declares its capabilities. A study that asks for a missing one fails before any model loads:

- `GENERATE`: one greedy text per prompt.
- `SAMPLE`: several texts per prompt. Each follows from its own seed, whatever else is in the batch.
- `SCORE`: the log-likelihood of each of several given continuations of a prompt.
- `STREAM`: results come one by one, as a service delivers and bills them, so that each can be kept at once.
- `MEASURE`: each text comes with its `Confidence`.
- `PASSAGES`: the model reads passages that stand apart from the prompt's text (as Fusion-in-Decoder does). The methods
  that take prompts also take the keyword `passages` then: a list of texts for each prompt.
"""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from longtail.errors import BackendError
from longtail.generation.prompts.endings import AFTER_THINKING, FIRST_LINE, is_complete
from longtail.scoring.model_answer import Confidence, ModelAnswer, read_answer_text
from longtail.study.backends import BACKENDS, GENERATE
from longtail.study.backends import Backend as BackendRecord
from longtail.study.models import Model

Secret = Callable[[str], str | None]
"""The value of an environment variable that holds a key; None where it is not set."""

LENGTH = "length"
"""The finish reason of a text that the limit of new tokens ended."""
_GENERATION_VERSION = 1
"""Raised when the same prompt and decoding ought to give another text: cached rows then no longer count."""


@dataclass(frozen=True)
class Decoding:
    """Decoding that ends after `max_new_tokens`, at the end token, or once what `end` keeps is complete.

    `end` is one of `prompts.endings`. A text may stop later than there: `cut_text` gives the same from both.
    Temperature 0 is greedy; above 0 the whole distribution is drawn from (top_p 1, no top_k).
    """

    max_new_tokens: int
    temperature: float = 0.0
    end: str = FIRST_LINE

    @property
    def key(self) -> str:
        """The part of the decoding that decides the text, for cache keys."""
        how = f"temperature={self.temperature!r}" if self.temperature else "greedy"
        return f"v{_GENERATION_VERSION} {how} {self.end} max_new_tokens={self.max_new_tokens}"

    def finish_reason(self, text: str, n_tokens: int) -> str | None:
        """`length` where the limit ended the text of a model that thinks before it was complete; else None."""
        is_cut = n_tokens >= self.max_new_tokens and self.end.startswith(AFTER_THINKING)
        return LENGTH if is_cut and not is_complete(text, self.end) else None


@dataclass(frozen=True)
class Identity:
    """Which weights answer, and through which engine.

    `revision` is a hub commit, the SHA-256 of the weights', configuration's and tokenizer's files, or what a
    service says that it serves. `rules` are the checkpoint's own settings that its decoding follows, and `greedy_rules`
    what greedy texts are asked for besides; empty for none.
    """

    revision: str
    dtype: str
    quantisation: str
    engine: str
    engine_version: str
    rules: str = ""
    greedy_rules: str = ""

    def decoding(self, decoding: Decoding) -> str:
        """What decides a text besides prompt, weights and seed: as rows say it, and in cache keys."""
        greedy = "" if decoding.temperature else self.greedy_rules
        return " ".join(filter(None, (decoding.key, self.rules, greedy)))

    @property
    def weights(self) -> str:
        """SHA-256 over revision, dtype and quantisation: the part without the engine."""
        text = "\n".join((self.revision, self.dtype, self.quantisation))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """What one result took: a generated text, or the scores of one prompt's candidates.

    `new_tokens` are the text's without the end token, or those of all candidates. `shared_tokens` of the
    `prompt_tokens` were not computed for this result: another one of its batch, an earlier one, or the service's own
    cache had them. `latency_ms` is the result's share of its batch's wall time, and `batch_size` the number of results
    of that batch. A service's batch is one request: one greedy text, or the samples of one prompt. `device_seconds`
    is the result's share of the devices' time, None where they are not ours. `cost_usd` is what a service bills for
    the result, None where it bills nothing. Of the `new_tokens`, `reasoning_tokens` are the model's reasoning, and
    `reasoning_usd` what a service bills for them; None where there are none, or their number is not known.
    `served_model` is the model that a service says it used.
    """

    prompt_tokens: int
    new_tokens: int
    n_truncated_tokens: int
    latency_ms: float
    batch_size: int
    shared_tokens: int = 0
    device_seconds: float | None = None
    cost_usd: float | None = None
    reasoning_tokens: int | None = None
    reasoning_usd: float | None = None
    served_model: str | None = None


@dataclass(frozen=True)
class Generation(Accounts):
    """One generated text, uncut, reasoning included. The confidence is that of the part that its decoding's `end` keeps;
    None where that is empty, or where the backend cannot say.

    What services say beside it: whether it `has_text` at all (null is no empty text), its `finish_reason`, a `refusal`,
    and the `reasoning` of a field apart.
    """

    text: str
    confidence: Confidence | None = None
    has_text: bool = True
    finish_reason: str | None = None
    refusal: str | None = None
    reasoning: str | None = None

    def answer(self) -> ModelAnswer:
        """The text without reasoning, or the refusal. Errors: `NoAnswerError` where there is no answer."""
        return read_answer_text(
            self.text if self.has_text else None,
            finish_reason=self.finish_reason,
            refusal=self.refusal,
            reasoning=self.reasoning,
        )

    @property
    def raw_text(self) -> str:
        """All that came back: the reasoning of a field apart stands first, between marks of thinking."""
        thoughts = f"<think>{self.reasoning}</think>\n\n" if self.reasoning else ""
        return thoughts + (self.text or self.refusal or "")


@dataclass(frozen=True)
class CandidateScore:
    """Log-likelihood of one continuation given its prompt: natural logarithms, the end token left out."""

    log_likelihood: float
    n_tokens: int

    @property
    def mean(self) -> float:
        """Log-likelihood per token; 0 for an empty continuation."""
        return self.log_likelihood / self.n_tokens if self.n_tokens else 0.0


@dataclass(frozen=True)
class Scored(Accounts):
    """The scores of one prompt's candidates, in the candidates' order.

    `text` is the greedy text behind the same prompt, where one was asked for beside the scores. `new_tokens` and times
    then have both.
    """

    scores: tuple[CandidateScore, ...]
    text: str = ""


Result = Generation | Scored


@dataclass(frozen=True)
class Failure:
    """A prompt that the backend could not answer; the others of its batch are unharmed."""

    reason: str


@dataclass(frozen=True)
class Postponed:
    """A prompt that was not asked yet, because asking might have overrun the budget. This is no failure."""

    reason: str


@dataclass(frozen=True)
class Usage:
    """What a backend runs on, and the most memory held so far: of the device, else of this process. None: not known."""

    device: str
    peak_memory_mb: float | None = field(
        default_factory=lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )


class Backend(Protocol):
    """A loaded model. Constructing one (from a `Model` and a `Secret`) loads it; errors are `BackendError`.

    A method whose capability is not declared raises `BackendError`.
    """

    capabilities: frozenset[str]
    identity: Identity

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        """Answer each prompt, in order. Errors that concern all prompts: `BackendError`."""
        ...

    def sample(
        self, prompts: Sequence[str], decoding: Decoding, seeds: Sequence[Sequence[int]]
    ) -> list[list[Generation] | Failure]:
        """For each prompt one text per seed, at the decoding's temperature, in the order of `seeds`."""
        ...

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[Scored | Failure]:
        """For each prompt the scores of its own candidates. A candidate brings its own leading space."""
        ...

    def forget(self) -> None:
        """Drop what earlier calls left to be shared, so that the next prompt is computed whole."""
        ...

    def usage(self) -> Usage:
        """Device and peak memory."""
        ...

    def close(self) -> None:
        """Release the model; the backend is not used afterwards."""
        ...


class StreamingBackend(Backend, Protocol):
    """A backend that declares `STREAM`."""

    @property
    def spent_usd(self) -> float:
        """What its calls have cost so far: texts, billed failures, and the most that lost answers can have cost."""
        ...

    def stream(
        self,
        prompts: Sequence[str],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]] | None,
        *,
        names: Sequence[str],
        budget_usd: float | None,
        is_resumed: bool = False,
    ) -> Iterator[tuple[int, list[Generation] | Failure | Postponed]]:
        """Each prompt's index and result as soon as the service has answered, in any order.

        `seeds` None asks for one greedy text per prompt (a list of one). `names` identify the requests to the
        service, so that a request sent twice is billed once. `budget_usd` is the most that this call may cost:
        a request that might overrun it is `Postponed`; None sets no limit. `is_resumed` says that other prompts of
        the partition were answered before, so that refusals alone say nothing about the rest.
        """
        ...


def entry(model: Model, capability: str = GENERATE) -> BackendRecord:
    """The record of a model's backend. Errors: `BackendError` where it is unknown or lacks the capability."""
    record = BACKENDS.get(model.backend)
    if record is None:
        known = ", ".join(sorted(name for name, other in BACKENDS.items() if other.generates))
        raise BackendError(f"model {model.name}: unknown backend {model.backend!r}; use one of: {known}")
    if not record.generates:
        raise BackendError(
            f"model {model.name}: its answers are imported (results); it cannot {capability} any"
        )
    if capability not in record.capabilities:
        able = (
            ", ".join(sorted(n for n, other in BACKENDS.items() if capability in other.capabilities))
            or "none"
        )
        raise BackendError(
            f"model {model.name}: backend {model.backend} cannot {capability}; backends that can: {able}"
        )
    return record


def identify(model: Model) -> Identity:
    """The identity of a model's weights, without loading them. Errors: `BackendError`."""
    identity: Identity = entry(model).load().identify(model)
    return identity


def load_backend(model: Model, secret: Secret = os.environ.get) -> Backend:
    """Load a model. Errors: `BackendError`, in one line."""
    backend: Backend = entry(model).load()(model, secret)
    return backend
