"""Causal language models of the Hugging Face format, by transformers, on a CPU or a CUDA device.

What belongs here: loading, tokens, batches that fit, text. What does not: the decoding loop (`greedy`),
finding files (`weights`). Weights are safetensors only, and no code of a model's repository runs.

Greedy text may differ in rare near-ties between batches of other sizes; nothing here promises bit equality.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import os
import resource
import time
from collections import deque
from collections.abc import Sequence
from itertools import chain, pairwise

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.base import (
    GENERATE,
    Decoding,
    Failure,
    Generation,
    Identity,
    Secret,
    Usage,
)
from dagster_project.core.generation.greedy import decode_greedily
from dagster_project.core.generation.local.loading import first_line, is_out_of_memory, load_model
from dagster_project.core.generation.prompts import is_answer_complete
from dagster_project.core.generation.weights import find_weights
from dagster_project.core.study import Model
from dagster_project.core.threads import thread_count

_LOG = logging.getLogger(__name__)


class TransformersBackend:
    """A causal language model in memory."""

    capabilities = frozenset({GENERATE})

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        import torch

        torch.set_num_threads(thread_count())
        self.identity = self.identify(model)
        self._loaded = load_model(model)
        self._device = self._loaded.device
        self._tokenizer, self._model = self._loaded.tokenizer, self._loaded.model
        self._name = model.name
        self._budget = model.batch_tokens
        self._accepted = frozenset(inspect.signature(self._model.forward).parameters)
        self._line_ends: dict[int, bool] = {}

    @staticmethod
    def identify(model: Model) -> Identity:
        """Hub commit or SHA-256 of the files, without loading. Errors: `BackendError`."""
        version = importlib.metadata.version("transformers")
        revision = find_weights(model).revision
        return Identity(revision, model.dtype, model.quantisation, "transformers", version)

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        """Answer each prompt, in batches of at most `batch_tokens` padded tokens, the longest prompts last.

        A batch that does not fit the memory is halved, and the rest cut to its measure; a single prompt that
        does not fit is a `Failure`.
        """
        room = self._room(decoding)
        full = self._loaded.encode(prompts)
        cost = [min(len(tokens), room) + decoding.max_new_tokens for tokens in full]
        results: dict[int, Generation | Failure] = {}
        todo = sorted((i for i in range(len(full)) if full[i]), key=cost.__getitem__)
        waiting = deque(self._batches(todo, cost))
        while waiting:
            rows = waiting.popleft()
            done = self._attempt([full[i][-room:] for i in rows], [len(full[i]) for i in rows], decoding)
            if done is not None:
                results.update(zip(rows, done, strict=True))
            elif len(rows) == 1:
                results[rows[0]] = Failure(f"out of memory with one prompt of {len(full[rows[0]])} tokens")
            else:
                self._budget = len(rows) * cost[rows[-1]] // 2
                _LOG.warning("%s: out of memory with %s rows; batches are halved", self._name, len(rows))
                waiting = deque(self._batches([*rows, *chain.from_iterable(waiting)], cost))
        return [results.get(i, Failure("the prompt has no tokens")) for i in range(len(prompts))]

    def forget(self) -> None:
        """Nothing is shared between calls."""

    def usage(self) -> Usage:
        """The device; the most memory allocated on it, or on a CPU by the process."""
        if self._device.type == "cuda":
            import torch

            peak = torch.cuda.max_memory_allocated(self._device)
            return Usage(f"{self._device} ({torch.cuda.get_device_name(self._device)})", peak / 2**20)
        return Usage(str(self._device), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    def close(self) -> None:
        """Free the weights."""
        self._model = None
        self._loaded.close()

    def _room(self, decoding: Decoding) -> int:
        """Tokens that a prompt may have."""
        return self._loaded.room(decoding.max_new_tokens) or 1 << 60

    def _batches(self, rows: Sequence[int], cost: Sequence[int]) -> list[list[int]]:
        """Rows, sorted by cost (tokens), in the fewest even batches whose padded tokens fit the budget."""
        for n in range(1, len(rows) + 1):
            edges = [len(rows) * i // n for i in range(n + 1)]
            cut = [list(rows[start:end]) for start, end in pairwise(edges)]
            if all(len(batch) == 1 or len(batch) * cost[batch[-1]] <= self._budget for batch in cut):
                return cut
        return []

    def _attempt(
        self, prompts: list[list[int]], full_lengths: list[int], decoding: Decoding
    ) -> list[Generation | Failure] | None:
        """One batch; None where the memory did not do."""
        started = time.perf_counter()
        try:
            written = decode_greedily(
                self._model,
                prompts,
                decoding.max_new_tokens,
                self._is_done,
                self._loaded.end_ids,
                self._accepted,
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise BackendError(f"model {self._name}: {first_line(error)}") from error
            written = None
        if written is None:
            self._loaded.free_memory()
            return None
        texts = self._tokenizer.batch_decode(
            [tokens or [] for tokens in written], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        share = 1000 * (time.perf_counter() - started) / len(prompts)
        return [
            Failure("the model's scores are not finite numbers")
            if tokens is None
            else Generation(text, len(prompt), len(tokens), length - len(prompt), share, len(prompts))
            for prompt, length, tokens, text in zip(prompts, full_lengths, written, texts, strict=True)
        ]

    def _is_done(self, tokens: list[int]) -> bool:
        """Only a token with a line end can complete an answer: no other is worth decoding at each step."""
        last = tokens[-1]
        if last not in self._line_ends:
            self._line_ends[last] = "\n" in self._text([last])
        return self._line_ends[last] and is_answer_complete(self._text(tokens))

    def _text(self, tokens: list[int]) -> str:
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text
