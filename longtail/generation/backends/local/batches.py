"""Device batches of one call: planned, run, and accounted for.

The texts of a batch share its wall time and its devices' time equally, and so do scored prompts. The computed
tokens of a prompt are charged once, to its first text. The tokens of a prefix that a batch computed for several prompts
are charged to the first of these prompts. All other tokens count as shared.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    CandidateScore,
    Decoding,
    Failure,
    Generation,
    Scored,
    Usage,
)
from longtail.generation.backends.local.decoding import (
    Stepper,
    Steppers,
    Texts,
    Written,
    confidence_of_text,
    tokens_before,
)
from longtail.generation.backends.local.encoder_decoder import tokens_of
from longtail.generation.backends.local.loading import LoadedModel
from longtail.generation.backends.local.scoring import Continuation
from longtail.generation.prompts.endings import answer_start
from longtail.models.limits import first_line, is_out_of_memory
from longtail.scoring.model_answer import Confidence
from longtail.study.models import BATCH_TOKENS

_LOG = logging.getLogger(__name__)
MOST_TOKENS = 262_144
_SHARE = 0.25
"""Of a device's free memory, for a batch's keys and values. Kept prefixes may take as much."""
T = TypeVar("T")
Work = Callable[[Stepper, Sequence[int]], list[T]]
"""From an opened batch and its rows' indices to one result per row."""


def batch_tokens_on(loaded: LoadedModel) -> int:
    """How many tokens a batch may have where the study does not say: on a GPU, as many as its memory allows.

    There a step takes nearly as long for a hundred texts as for a thousand.
    """
    import torch

    if loaded.device.type != "cuda":
        return BATCH_TOKENS
    free, _ = torch.cuda.mem_get_info(loaded.device)
    return tokens_in(_SHARE * free, loaded.model.config.get_text_config(), loaded.model.dtype.itemsize)


def tokens_in(n_bytes: float, config: Any, width: int) -> int:
    """Of how many tokens `n_bytes` hold the keys and values, of `width` bytes a number: 16,384 to 262,144.

    The least where the configuration does not say, as that of a model without attention.
    """
    layers, heads = (getattr(config, f"num_{name}", None) for name in ("hidden_layers", "attention_heads"))
    if not isinstance(layers, int) or not isinstance(heads, int):
        return BATCH_TOKENS
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    bytes_per_token = 2 * layers * (getattr(config, "num_key_value_heads", None) or heads) * size * width
    return int(min(max(n_bytes // bytes_per_token, BATCH_TOKENS), MOST_TOKENS))


@dataclass(frozen=True)
class Finished(Generic[T]):
    """One device batch: its rows, a result and a number of shared tokens for each; None where one row alone
    did not fit the memory. `seconds` is the wall time since the batch before, attempts that did not fit included."""

    rows: list[int]
    results: list[T] | None
    shared_tokens: list[int]
    seconds: float


class DeviceBatches:
    """Runs prompts of one model in batches that fit. `batch_tokens` falls where memory is short, and stays so."""

    def __init__(self, loaded: LoadedModel, steppers: Steppers, batch_tokens: int) -> None:
        self._loaded, self._steppers = loaded, steppers
        self.batch_tokens = batch_tokens

    def run(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], work: Work[T]
    ) -> Iterator[Finished[T]]:
        """Each batch as it is done. Errors other than a lack of memory: `BackendError`."""
        waiting = self._plan(range(len(prompts)), prompts, new_tokens)
        started = time.perf_counter()
        while waiting:
            rows = waiting.popleft()
            batch = [prompts[row] for row in rows]
            outcome = self._attempt(batch, rows, work)
            if outcome is None and len(rows) == 1:  # it may fit where nothing is kept for later batches
                outcome = self._attempt(batch, rows, work)
            if outcome is None and len(rows) > 1:
                self._shrink(rows, prompts, new_tokens)
                waiting = self._plan([*rows, *chain.from_iterable(waiting)], prompts, new_tokens)
                continue
            results, shared_tokens = outcome or (None, [0])
            yield Finished(rows, results, shared_tokens, time.perf_counter() - started)
            started = time.perf_counter()

    def forget(self) -> None:
        """Drop what earlier batches left to be shared."""
        self._steppers.forget()

    def _shrink(self, rows: list[int], prompts: Sequence[Sequence[int]], new_tokens: Sequence[int]) -> None:
        """Halve the tokens of a batch until these rows no longer make one."""
        before = self.batch_tokens
        self.batch_tokens = min(before, sum(len(prompts[row]) + new_tokens[row] for row in rows)) // 2
        while len(self._plan(rows, prompts, new_tokens)) == 1:
            self.batch_tokens //= 2
        _LOG.warning(
            "%s: out of memory with %s rows; batches of %s tokens instead of %s",
            *(self._loaded.name, len(rows), self.batch_tokens, before),
        )

    def _plan(
        self, rows: Sequence[int], prompts: Sequence[Sequence[int]], new_tokens: Sequence[int]
    ) -> deque[list[int]]:
        sizes = [prompts[row] for row in rows], [new_tokens[row] for row in rows]
        planned = self._steppers.batches(*sizes, self.batch_tokens)
        return deque([rows[i] for i in batch] for batch in planned)

    def _attempt(
        self, prompts: list[Sequence[int]], rows: list[int], work: Work[T]
    ) -> tuple[list[T], list[int]] | None:
        """One batch's results and shared tokens; None where the memory was too small."""
        import torch

        try:
            with torch.inference_mode():
                stepper = self._steppers.open(prompts)
                return work(stepper, rows), list(stepper.shared_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise BackendError(f"model {self._loaded.name}: {first_line(error)}") from error
        # outside the handler: its traceback would keep the batch's tensors alive
        self.forget()
        self._loaded.free_memory()
        return None


Tokens = tuple[int, ...]
OfPrompt = list[Written] | None
"""The texts of a prompt; None where the model's scores were not finite."""
_NOT_FINITE = Failure("the model's scores are not finite numbers")


@dataclass(frozen=True)
class Row:
    """The prompt's tokens as the model gets them, how many it lost, and a seed for each text, or what is scored."""

    tokens: Tokens
    n_truncated: int
    seeds: Sequence[int] = ()
    continuations: Sequence[Continuation] = ()


def account_texts(
    done: Finished[OfPrompt], rows: Sequence[Row], texts: Texts, decoding: Decoding, n_devices: int
) -> Iterator[tuple[int, list[Generation] | Failure]]:
    """The places of the rows of one device batch, and their texts."""
    n_texts = sum(len(rows[index].seeds) for index in done.rows)
    read = _read(done.results or [], texts, decoding.end)
    share = done.seconds / n_texts
    for place, index in enumerate(done.rows):
        row, written = rows[index], done.results[place] if done.results else None
        if written is None:
            yield index, _reason(done, row.tokens)
            continue
        n_tokens, shared = len(tokens_of(row.tokens)), done.shared_tokens[place]
        generations = []
        for new in written:
            text, confidence, n_reasoning = read[id(new)]
            generations.append(
                Generation(
                    text=text,
                    confidence=confidence,
                    finish_reason=decoding.finish_reason(text, len(new.tokens)),
                    prompt_tokens=n_tokens,
                    new_tokens=len(new.tokens),
                    reasoning_tokens=n_reasoning or None,
                    n_truncated_tokens=row.n_truncated,
                    latency_ms=1000 * share,
                    batch_size=n_texts,
                    shared_tokens=shared,
                    device_seconds=share * n_devices,
                )
            )
            shared = n_tokens
        yield index, generations


def account_scores(
    done: Finished[list[float] | None], rows: Sequence[Row], n_devices: int
) -> Iterator[tuple[int, Scored | Failure]]:
    """The places of the rows of one device batch, and their scores."""
    share = done.seconds / len(done.rows)
    for place, index in enumerate(done.rows):
        row, sums = rows[index], done.results[place] if done.results else None
        if sums is None:
            yield index, _reason(done, row.tokens)
            continue
        counts = [len(c.tokens) - c.n_unscored for c in row.continuations]
        scored = Scored(
            scores=tuple(map(CandidateScore, sums, counts)),
            prompt_tokens=len(tokens_of(row.tokens)),
            new_tokens=sum(counts),
            n_truncated_tokens=row.n_truncated,
            latency_ms=1000 * share,
            batch_size=len(done.rows),
            shared_tokens=done.shared_tokens[place],
            device_seconds=share * n_devices,
        )
        yield index, scored


def _read(
    written: Sequence[OfPrompt], texts: Texts, end: str
) -> dict[int, tuple[str, Confidence | None, int]]:
    """Texts, their confidence and tokens of reasoning by the identity of what was written: equal samples share it."""
    distinct = {id(text_written): text_written for samples in written for text_written in samples or ()}
    decoded = texts.decode([text_written.tokens for text_written in distinct.values()])
    return {
        key: (
            text,
            confidence_of_text(text_written.tokens, text_written.scores, text, end, texts),
            tokens_before(text_written.tokens, answer_start(text) or 0, texts),
        )
        for (key, text_written), text in zip(distinct.items(), decoded, strict=True)
    }


def _reason(done: Finished[Any], tokens: Tokens) -> Failure:
    """Why a prompt of a batch has no result."""
    if done.results is None:
        return Failure(f"out of memory with one prompt of {len(tokens)} tokens")
    return _NOT_FINITE


def usage_of(devices: Sequence[Any]) -> Usage:
    """The devices of one model, and what torch allocated at most on all GPUs together, or what the process held."""
    import torch

    gpus = [device for device in devices if device.type == "cuda"]
    names = ", ".join(
        f"{device} ({torch.cuda.get_device_name(device)})" if device in gpus else str(device)
        for device in devices
    )
    if not gpus:
        return Usage(names)
    return Usage(names, sum(torch.cuda.max_memory_allocated(device) for device in gpus) / 2**20)
