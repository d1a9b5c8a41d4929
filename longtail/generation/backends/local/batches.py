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
from longtail.generation.backends.base import CandidateScore, Decoding, Failure, Generation, Scored
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


Tokens = tuple[int, ...]
OfPrompt = list[Written] | None
"""The texts of a prompt; None where the model's scores were not finite."""


@dataclass(frozen=True)
class Row:
    """The prompt's tokens as the model gets them, how many it lost, and a seed for each text, or what is scored."""

    tokens: Tokens
    n_truncated: int
    seeds: Sequence[int] = ()
    continuations: Sequence[Continuation] = ()


Work = Callable[[Stepper, Sequence[Row]], list[T]]
"""From an opened batch and its rows to one result per row."""


@dataclass(frozen=True)
class Finished(Generic[T]):
    """One device batch: its rows by their places, a result and a number of shared tokens for each; None where one row
    alone did not fit the memory. `seconds` is the wall time since the batch before, with attempts that did not fit."""

    rows: dict[int, Row]
    results: list[T] | None
    shared_tokens: list[int]
    seconds: float


class DeviceBatches:
    """Runs prompts of one model in batches that fit. `batch_tokens` falls where memory is short, and stays so."""

    def __init__(self, loaded: LoadedModel, steppers: Steppers, batch_tokens: int) -> None:
        self._loaded, self._steppers = loaded, steppers
        self.batch_tokens = batch_tokens

    def run(
        self, places: Sequence[int], rows: Sequence[Row], new_tokens: Sequence[int], work: Work[T]
    ) -> Iterator[Finished[T]]:
        """Each batch as it is done; `places` name the rows. Errors other than a lack of memory: `BackendError`."""
        prompts = [row.tokens for row in rows]
        waiting = self._plan(range(len(prompts)), prompts, new_tokens)
        started = time.perf_counter()
        while waiting:
            batch = waiting.popleft()
            chosen = [rows[i] for i in batch], [*batch.values()]
            outcome = self._attempt(*chosen, work)
            if outcome is None and len(batch) == 1:  # it may fit where nothing is kept for later batches
                outcome = self._attempt(*chosen, work)
            if outcome is None and len(batch) > 1:
                self._shrink([*batch], prompts, new_tokens)
                waiting = self._plan([*batch, *chain.from_iterable(waiting)], prompts, new_tokens)
                continue
            results, shared_tokens = outcome or (None, [0])
            seconds = time.perf_counter() - started
            yield Finished({places[i]: rows[i] for i in batch}, results, shared_tokens, seconds)
            started = time.perf_counter()

    def forget(self) -> None:
        self._steppers.forget()

    def _shrink(
        self, rows: Sequence[int], prompts: Sequence[Sequence[int]], new_tokens: Sequence[int]
    ) -> None:
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
    ) -> deque[dict[int, int]]:
        sizes = [prompts[row] for row in rows], [new_tokens[row] for row in rows]
        planned = self._steppers.batches(*sizes, self.batch_tokens)
        return deque({rows[i]: n_shared for i, n_shared in batch.items()} for batch in planned)

    def _attempt(
        self, rows: Sequence[Row], shared: Sequence[int], work: Work[T]
    ) -> tuple[list[T], list[int]] | None:
        """One batch's results and shared tokens; None where the memory was too small."""
        import torch

        try:
            with torch.inference_mode():
                stepper = self._steppers.open([row.tokens for row in rows], shared)
                return work(stepper, rows), list(stepper.shared_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise BackendError(f"model {self._loaded.name}: {first_line(error)}") from error
        # outside the handler: its traceback would keep the batch's tensors alive
        self.forget()
        self._loaded.free_memory()
        return None


def account_texts(
    done: Finished[OfPrompt], texts: Texts, decoding: Decoding, n_devices: int
) -> Iterator[tuple[int, list[Generation] | Failure]]:
    """The places of the rows of one device batch, and their texts."""
    read = _read(done.results or [], texts, decoding.end)
    n_texts = sum(len(row.seeds) for row in done.rows.values())
    for place, written, accounts in _account(done, n_texts, n_devices):
        if isinstance(written, Failure):
            yield place, written
            continue
        generations = []
        for new in written:
            text, confidence, n_reasoning = read[id(new)]
            generations.append(
                Generation(
                    text=text,
                    confidence=confidence,
                    finish_reason=decoding.finish_reason(text, len(new.tokens)),
                    new_tokens=len(new.tokens),
                    reasoning_tokens=n_reasoning or None,
                    **accounts,
                )
            )
            accounts["shared_tokens"] = accounts["prompt_tokens"]
        yield place, generations


def account_scores(
    done: Finished[list[float] | None], n_devices: int
) -> Iterator[tuple[int, Scored | Failure]]:
    """The places of the rows of one device batch, and their scores."""
    for place, sums, accounts in _account(done, len(done.rows), n_devices):
        if isinstance(sums, Failure):
            yield place, sums
            continue
        counts = [len(c.tokens) - c.n_unscored for c in done.rows[place].continuations]
        scores = tuple(map(CandidateScore, sums, counts))
        yield place, Scored(scores=scores, new_tokens=sum(counts), **accounts)


def _account(
    done: Finished[T | None], n_results: int, n_devices: int
) -> Iterator[tuple[int, T | Failure, dict[str, Any]]]:
    """Each row's place, its result, and what the result took; a result that is not there is a failure."""
    share = done.seconds / n_results
    results = [None] * len(done.rows) if done.results is None else done.results
    for (place, row), result, shared in zip(done.rows.items(), results, done.shared_tokens, strict=True):
        reason = "the model's scores are not finite numbers"
        if done.results is None:
            reason = f"out of memory with one prompt of {len(row.tokens)} tokens"
        accounts = {
            "prompt_tokens": len(tokens_of(row.tokens)),
            "n_truncated_tokens": row.n_truncated,
            "latency_ms": 1000 * share,
            "batch_size": n_results,
            "shared_tokens": shared,
            "device_seconds": share * n_devices,
        }
        yield place, Failure(reason) if result is None else result, accounts


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
