"""Local language models of the Hugging Face format, by transformers, on a CPU or CUDA devices.

What belongs here: from texts to tokens and back, which rows are the same work, accounts. What does not:
loading, device batches, forward passes, choosing tokens (`local`).

Greedy text may differ in rare near-ties between batches of other sizes; nothing here promises bit equality.

Accounts: the texts of a batch share its wall time and its devices' time equally, and so do scored prompts. The computed
tokens of a prompt are charged once, to its first text. The tokens of a prefix that a batch computed for several prompts
are charged to the first of these prompts. All other tokens count as shared.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.base import (
    CandidateScore,
    Decoding,
    Failure,
    Generation,
    Identity,
    Scored,
    Secret,
    Usage,
)
from dagster_project.core.generation.backends.local.candidates import CandidateTokens
from dagster_project.core.generation.backends.local.choose import choose_steppers
from dagster_project.core.generation.backends.local.decode import Ending, decode_greedily, decode_samples
from dagster_project.core.generation.backends.local.device_batches import DeviceBatches, Finished
from dagster_project.core.generation.backends.local.fusion import tokens_of
from dagster_project.core.generation.backends.local.loading import load_model
from dagster_project.core.generation.backends.local.rules import Rules
from dagster_project.core.generation.backends.local.scoring import (
    Continuation,
    score_continuations,
    tree_size,
)
from dagster_project.core.generation.backends.local.stepper import Stepper
from dagster_project.core.generation.backends.local.texts import Texts
from dagster_project.core.generation.backends.local.usage import Gauge
from dagster_project.core.generation.backends.settings import read_settings
from dagster_project.core.generation.backends.weights import find_weights
from dagster_project.core.study.backends import GENERATE, SAMPLE, SCORE
from dagster_project.core.study.study import Model
from dagster_project.core.threads import thread_count

_NO_TOKENS = Failure("the prompt has no tokens")
_NOT_FINITE = Failure("the model's scores are not finite numbers")
_GREEDY = (0,)
"""Greedy texts are drawn by no seed; each prompt has one text."""

Tokens = tuple[int, ...]
Written = list[list[int]] | None
"""Tokens of each text of a prompt; None where the model's scores were not finite."""


@dataclass(frozen=True)
class _Row:
    """The prompt's tokens as the model gets them, how many it lost, and a seed for each text."""

    tokens: Tokens
    n_truncated: int
    seeds: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        return len(tokens_of(self.tokens))


@dataclass(frozen=True)
class _Candidates:
    """Continuations to score for one row, and how many tokens its prompt lost."""

    row: int
    n_truncated: int
    continuations: list[Continuation]


class TransformersBackend:
    """A causal or encoder-decoder language model in memory."""

    capabilities = frozenset({GENERATE, SAMPLE, SCORE})

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        import torch

        torch.set_num_threads(thread_count())
        self.identity = self.identify(model)
        self._loaded = load_model(model)
        try:
            self._check_kind(model)
            steppers = choose_steppers(self._loaded, model.batch_tokens)
            self._rules = self._checked_rules(getattr(steppers, "start", ()))
        except BaseException:
            self._loaded.close()
            raise
        self._batches: DeviceBatches | None = DeviceBatches(self._loaded, steppers, model.batch_tokens)
        self._texts = Texts(self._loaded.tokenizer)
        self._candidates = CandidateTokens(self._loaded.tokenizer, getattr(steppers, "targets", None))
        self._gauge = Gauge(self._loaded.devices)

    @staticmethod
    def identify(model: Model) -> Identity:
        """Hub commit or SHA-256 of the files, without loading; a GGUF file is converted once. Errors: `BackendError`."""
        version = importlib.metadata.version("transformers")
        found = find_weights(model)
        rules = read_settings(found.files).text
        quantisation = found.quantisation or model.quantisation
        return Identity(found.revision, model.dtype, quantisation, "transformers", version, rules)

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        """Greedy texts, in device batches of about `batch_tokens` tokens; equal prompts are computed once.

        A batch that does not fit the memory is halved, and so is the budget, which grows again slowly. A prompt that
        does not fit alone is a `Failure`.
        """
        return self._greedy(self._loaded.encode(prompts), decoding)

    def sample(
        self, prompts: Sequence[str], decoding: Decoding, seeds: Sequence[Sequence[int]]
    ) -> list[list[Generation] | Failure]:
        """One text per seed for each prompt; samples that agree so far are one state of the batch.

        Errors: `BackendError` at temperature 0.
        """
        return self._sampled(self._loaded.encode(prompts), decoding, seeds)

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[Scored | Failure]:
        """Scores of each prompt's candidates; common beginnings of candidates are computed once.

        A prompt too long for its longest candidate loses its beginning.
        """
        return self._scores(prompts, self._loaded.encode(prompts), candidates)

    def forget(self) -> None:
        """Drop the prefixes that are kept for later calls."""
        self._running().forget()

    def usage(self) -> Usage:
        """The devices, their peak memory (on a CPU: the process's), and how busy GPUs were."""
        return self._gauge.usage()

    def close(self) -> None:
        """Free the weights."""
        self._batches = None
        self._loaded.close()

    def _greedy(self, encoded: Sequence[Sequence[int]], decoding: Decoding) -> list[Generation | Failure]:
        """One text for each encoded prompt."""
        found = self._generations(encoded, decoding, [_GREEDY] * len(encoded), is_sampled=False)
        return [own if isinstance(own, Failure) else own[0] for own in found]

    def _sampled(
        self, encoded: Sequence[Sequence[int]], decoding: Decoding, seeds: Sequence[Sequence[int]]
    ) -> list[list[Generation] | Failure]:
        """One text per seed for each encoded prompt."""
        if decoding.temperature <= 0:
            raise BackendError(
                f"model {self._loaded.name}: nothing is sampled at temperature {decoding.temperature:g}"
            )
        return self._generations(encoded, decoding, seeds, is_sampled=True)

    def _scores(
        self, prompts: Sequence[str], encoded: Sequence[Sequence[int]], candidates: Sequence[Sequence[str]]
    ) -> list[Scored | Failure]:
        """The scores of each encoded prompt's candidates; `prompts` are the texts before candidates."""
        results: list[Scored | Failure] = [_NO_TOKENS] * len(prompts)
        asked: dict[Tokens, list[_Candidates]] = {}
        for i, (prompt, tokens, own) in enumerate(zip(prompts, encoded, candidates, strict=True)):
            n_before, found = self._candidates.continuations(prompt, tokens, own)
            before = self._cut(tokens[:n_before], max((len(c.tokens) for c in found), default=0))
            if before is None:
                results[i] = Failure("the longest candidate leaves no room for the prompt")
            elif before:
                asked.setdefault(before, []).append(_Candidates(i, n_before - len(before), found))
        distinct, rows = list(asked), list(asked.values())
        wanted = [[c for own in some for c in own.continuations] for some in rows]

        def work(stepper: Stepper, batch: Sequence[int]) -> list[list[float] | None]:
            return score_continuations(stepper, [wanted[index] for index in batch])

        for done in self._running().run(distinct, [tree_size(own) for own in wanted], work):
            self._gauge.read()
            for i, scored in self._scored(done, distinct, rows):
                results[i] = scored
        return results

    def _generations(
        self,
        encoded: Sequence[Sequence[int]],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]],
        *,
        is_sampled: bool,
    ) -> list[list[Generation] | Failure]:
        """For each encoded prompt its texts, or why there are none."""
        rows = self._rows(encoded, decoding, seeds)
        copies: dict[Tokens, list[int]] = {}
        for i, row in enumerate(rows):
            if row.tokens and row.seeds:
                copies.setdefault(row.tokens, []).append(i)
        distinct = list(copies)
        wanted = [sorted({seed for i in own for seed in rows[i].seeds}) for own in copies.values()]
        ending = Ending(decoding.max_new_tokens, self._loaded.end_ids, self._texts.is_done(decoding.end))

        def work(stepper: Stepper, batch: Sequence[int]) -> list[Written]:
            adjust = self._rules.adjust(
                [tokens_of(distinct[index]) for index in batch], decoding.max_new_tokens
            )
            if is_sampled:
                drawn = [wanted[index] for index in batch]
                return decode_samples(stepper, ending, decoding.temperature, drawn, adjust)
            written = decode_greedily(stepper, len(batch), ending, adjust)
            return [None if tokens is None else [tokens] for tokens in written]

        results: list[list[Generation] | Failure] = [[] if row.tokens else _NO_TOKENS for row in rows]
        new_tokens = [len(own) * decoding.max_new_tokens for own in wanted]
        places = list(copies.values())
        for done in self._running().run(distinct, new_tokens, work):
            self._gauge.read()
            asked = [[(i, rows[i]) for i in places[index]] for index in done.rows]
            for i, found in self._accounted(done, asked, [wanted[index] for index in done.rows]):
                results[i] = found
        return results

    def _accounted(
        self,
        done: Finished[Written],
        asked: Sequence[Sequence[tuple[int, _Row]]],
        seeds: Sequence[Sequence[int]],
    ) -> Iterator[tuple[int, list[Generation] | Failure]]:
        """The results of one device batch: for each of its prompts, those of the rows that asked for it."""
        n_texts = sum(len(row.seeds) for rows in asked for _, row in rows)
        texts = self._text_of(done.results or [])
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
                    tokens = written[seeds[place].index(seed)]
                    own.append(
                        Generation(
                            text=texts[id(tokens)],
                            prompt_tokens=row.n_tokens,
                            new_tokens=len(tokens),
                            n_truncated_tokens=row.n_truncated,
                            latency_ms=1000 * share,
                            batch_size=n_texts,
                            shared_tokens=shared,
                            device_seconds=share * len(self._loaded.devices),
                        )
                    )
                    shared = row.n_tokens
                yield i, own

    def _scored(
        self,
        done: Finished[list[float] | None],
        distinct: Sequence[Tokens],
        rows: Sequence[Sequence[_Candidates]],
    ) -> Iterator[tuple[int, Scored | Failure]]:
        """The results of one device batch."""
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
                        device_seconds=share * len(self._loaded.devices),
                    ),
                )
                shared = n_tokens

    def _text_of(self, written: Sequence[Written]) -> dict[int, str]:
        """Texts by the identity of their lists of tokens: equal samples share one list."""
        distinct = {id(tokens): tokens for texts in written for tokens in texts or ()}
        return dict(zip(distinct, self._texts.decode(list(distinct.values())), strict=True))

    def _rows(
        self, encoded: Sequence[Sequence[int]], decoding: Decoding, seeds: Sequence[Sequence[int]]
    ) -> list[_Row]:
        kept = [self._kept(tokens, decoding.max_new_tokens) for tokens in encoded]
        return [
            _Row(own, len(tokens) - len(own), tuple(drawn))
            for tokens, own, drawn in zip(encoded, kept, seeds, strict=True)
        ]

    def _cut(self, tokens: Sequence[int], n_new: int) -> Tokens | None:
        """The prompt that fits before so many new tokens; None where none does."""
        try:
            return self._kept(tokens, n_new)
        except BackendError:
            return None

    def _kept(self, tokens: Sequence[int], n_new: int) -> Tokens:
        """The end of a prompt that fits before so many new tokens. Errors: `BackendError` where none does."""
        room = self._loaded.room(n_new)
        return tuple(tokens if room is None else tokens[-room:])

    def _checked_rules(self, start: Sequence[int]) -> Rules:
        """The checkpoint's own rules. Errors: `BackendError` where one cannot be followed."""
        rules = Rules(self._loaded.settings.followed, self._loaded.end_ids, start)
        rules.check(self._loaded.name, self._loaded.n_embeddings, self._loaded.device)
        return rules

    def _check_kind(self, model: Model) -> None:
        """Errors: `BackendError` unless the study says rightly whether the model is an encoder-decoder: this decides the
        form of prompts."""
        if model.encoder_decoder != self._loaded.is_encoder_decoder:
            is_one = "is" if self._loaded.is_encoder_decoder else "is not"
            raise BackendError(
                f"model {model.name}: it {is_one} an encoder-decoder; set encoder_decoder: "
                f"{str(self._loaded.is_encoder_decoder).lower()} in the study"
            )

    def _running(self) -> DeviceBatches:
        if self._batches is None:
            raise BackendError(f"model {self._loaded.name}: it is closed")
        return self._batches


def _reason(done: Finished[Any], tokens: Tokens) -> Failure:
    """Why a prompt of a batch has no result."""
    if done.results is None:
        return Failure(f"out of memory with one prompt of {len(tokens)} tokens")
    return _NOT_FINITE
