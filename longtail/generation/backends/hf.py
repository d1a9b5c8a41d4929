"""Local language models of the Hugging Face format, by transformers, on a CPU or CUDA devices.

Greedy text may differ in rare near-ties between batches of other sizes; nothing here promises bit equality.

Fusion-in-Decoder readers (Izacard & Grave, 2021), as in Atlas, are T5 checkpoints whose decoder reads many passages.
Each passage is encoded behind the prompt's text, alone, and the decoder attends to the states of all of them. A passage
loses its end where prompt and passage have more than `passage_tokens` tokens; a prompt that leaves a passage no room is
a `Failure`. A prompt without passages is read as any encoder-decoder reads it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation, Identity, Scored, Secret, Usage
from longtail.generation.backends.local.attention import IMPLEMENTATION
from longtail.generation.backends.local.batches import (
    DeviceBatches,
    OfPrompt,
    Row,
    Tokens,
    account_scores,
    account_texts,
    batch_tokens_on,
)
from longtail.generation.backends.local.cached import CachedSteppers
from longtail.generation.backends.local.decoding import (
    Ending,
    Stepper,
    Steppers,
    Texts,
    decode_greedily,
    decode_samples,
)
from longtail.generation.backends.local.encoder_decoder import (
    EncoderDecoderSteppers,
    join_parts,
    parts_of,
    tokens_of,
)
from longtail.generation.backends.local.loading import LoadedModel, find_difference, load_model
from longtail.generation.backends.local.packed import PackedSteppers
from longtail.generation.backends.local.rules import Rules, read_settings
from longtail.generation.backends.local.scoring import CandidateTokens, score_continuations, tree_size
from longtail.models.limits import shared_lengths
from longtail.models.weights import check_folder, find_weights
from longtail.progress import Progress
from longtail.study.backends import GENERATE, MEASURE, PASSAGES, SAMPLE, SCORE
from longtail.study.models import Model
from longtail.threads import thread_count

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)
_GREEDY = (0,)
"""Greedy texts are drawn by no seed; each prompt has one text."""


class TransformersBackend:
    """A causal or encoder-decoder language model in memory."""

    capabilities = frozenset({GENERATE, SAMPLE, SCORE, MEASURE})
    no_tokens = Failure("the prompt has no tokens")

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        import torch

        torch.set_num_threads(thread_count())
        self.identity = self.identify(model)
        self._loaded = load_model(model)
        try:
            self._check_kind(model)
            self.batch_tokens = model.batch_tokens or batch_tokens_on(self._loaded)
            steppers = choose_steppers(self._loaded, self.batch_tokens)
            start = getattr(steppers, "start", ())
            self._rules = Rules(self._loaded.settings.followed, self._loaded.end_ids, start)
            self._rules.check(self._loaded.name, self._loaded.n_embeddings, self._loaded.device)
        except BaseException:
            self._loaded.close()
            raise
        self._batches = DeviceBatches(self._loaded, steppers, self.batch_tokens)
        self._texts = Texts(self._loaded.tokenizer)
        self._candidates = CandidateTokens(self._loaded.encode, getattr(steppers, "targets", None))

    @staticmethod
    def identify(model: Model) -> Identity:
        """Hub commit or SHA-256 of the files, without loading; a GGUF file is converted once. Errors: `BackendError`."""
        version = importlib.metadata.version("transformers")
        weights = find_weights(model)
        rules = read_settings(weights.files).text
        quantisation = weights.quantisation or model.quantisation
        return Identity(weights.revision, model.dtype, quantisation, "transformers", version, rules)

    def generate(
        self, prompts: Sequence[str], decoding: Decoding, *, passages: Sequence[Sequence[str]] = ()
    ) -> list[Generation | Failure]:
        """Greedy texts, in device batches of about `batch_tokens` tokens.

        A batch that does not fit the memory is halved, and so are all later ones. A prompt that does not fit alone is a
        `Failure`.
        """
        encoded = self._encode(prompts, passages)
        generations = self._generations(encoded, decoding, [_GREEDY] * len(prompts), is_sampled=False)
        return [texts if isinstance(texts, Failure) else texts[0] for texts in generations]

    def sample(
        self,
        prompts: Sequence[str],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]],
        *,
        passages: Sequence[Sequence[str]] = (),
    ) -> list[list[Generation] | Failure]:
        """One text per seed for each prompt; samples that agree so far are one state of the batch."""
        return self._generations(self._encode(prompts, passages), decoding, seeds, is_sampled=True)

    def score(
        self,
        prompts: Sequence[str],
        candidates: Sequence[Sequence[str]],
        *,
        passages: Sequence[Sequence[str]] = (),
    ) -> list[Scored | Failure]:
        """Scores of each prompt's candidates; common beginnings of candidates are computed once.

        A prompt too long for its longest candidate loses its beginning.
        """
        results: list[Scored | Failure] = [self.no_tokens] * len(prompts)
        rows: dict[int, Row] = {}
        encoded = self._encode(prompts, passages)
        for i, (prompt, tokens, texts) in enumerate(zip(prompts, encoded, candidates, strict=True)):
            n_before, continuations = self._candidates.continuations(prompt, tokens, texts)
            try:
                before = self._fit(tokens[:n_before], max((len(c.tokens) for c in continuations), default=0))
            except BackendError:
                results[i] = Failure("the longest candidate leaves no room for the prompt")
                continue
            if before:
                rows[i] = Row(before, n_before - len(before), continuations=continuations)

        def work(stepper: Stepper, batch: Sequence[Row]) -> list[list[float] | None]:
            return score_continuations(stepper, [row.continuations for row in batch])

        sizes = [tree_size(row.continuations) for row in rows.values()]
        for done in self._batches.run(list(rows), list(rows.values()), sizes, work):
            for place, scored in account_scores(done, len(self._loaded.devices)):
                results[place] = scored
        return results

    def forget(self) -> None:
        """Drop what is kept for later calls: prefixes, or an encoder's states."""
        self._batches.forget()

    def usage(self) -> Usage:
        """The devices, and what torch allocated at most on all GPUs together; on a CPU, what the process held."""
        import torch

        gpus = [device for device in self._loaded.devices if device.type == "cuda"]
        names = ", ".join(
            f"{device} ({torch.cuda.get_device_name(device)})" if device in gpus else str(device)
            for device in self._loaded.devices
        )
        if not gpus:
            return Usage(names)
        return Usage(names, sum(torch.cuda.max_memory_allocated(device) for device in gpus) / 2**20)

    def close(self) -> None:
        del self._batches
        self._loaded.close()

    def _generations(
        self,
        encoded: Sequence[Sequence[int]],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]],
        *,
        is_sampled: bool,
    ) -> list[list[Generation] | Failure]:
        results: list[list[Generation] | Failure] = []
        rows: dict[int, Row] = {}
        for i, (tokens, drawn) in enumerate(zip(encoded, seeds, strict=True)):
            fitting = self._fit(tokens, decoding.max_new_tokens)
            results.append([] if fitting else self.no_tokens)
            if fitting and drawn:
                rows[i] = Row(fitting, len(tokens) - len(fitting), drawn)
        ending = Ending(decoding.max_new_tokens, self._loaded.end_ids, self._texts.is_done(decoding.end))

        def work(stepper: Stepper, batch: Sequence[Row]) -> list[OfPrompt]:
            adjust = self._rules.adjust([tokens_of(row.tokens) for row in batch], decoding.max_new_tokens)
            if is_sampled:
                drawn_by = [row.seeds for row in batch]
                return decode_samples(stepper, ending, decoding.temperature, drawn_by, adjust)
            written = decode_greedily(stepper, len(batch), ending, adjust)
            return [None if text is None else [text] for text in written]

        sizes = [len(row.seeds) * decoding.max_new_tokens for row in rows.values()]
        for done in self._batches.run(list(rows), list(rows.values()), sizes, work):
            for place, texts in account_texts(done, self._texts, decoding, len(self._loaded.devices)):
                results[place] = texts
        return results

    def _encode(self, prompts: Sequence[str], passages: Sequence[Sequence[str]]) -> Sequence[Sequence[int]]:
        """The tokens of each prompt, not cut. Errors: `BackendError` for passages, which this backend does not read."""
        if any(passages):
            raise BackendError(f"model {self._loaded.name}: its backend reads no passages apart from prompts")
        return self._loaded.encode(prompts)

    def _fit(self, tokens: Sequence[int], n_new: int) -> Tokens:
        """The end of a prompt that fits before so many new tokens. Errors: `BackendError` where none does."""
        room = self._loaded.room(n_new)
        return tuple(tokens if room is None else tokens[-room:])

    def _check_kind(self, model: Model) -> None:
        """Errors: `BackendError` unless the study says rightly whether the model is an encoder-decoder: this decides the
        form of prompts."""
        if model.encoder_decoder != self._loaded.is_encoder_decoder:
            is_one = "is" if self._loaded.is_encoder_decoder else "is not"
            raise BackendError(
                f"model {model.name}: it {is_one} an encoder-decoder; set encoder_decoder: "
                f"{str(self._loaded.is_encoder_decoder).lower()} in the study"
            )


def choose_steppers(loaded: LoadedModel, batch_tokens: int) -> Steppers:
    """Encoder-decoders have steppers of their own. Causal models are packed where a trial shows that this is right.

    Prefixes of at most `batch_tokens` tokens, or the states of an encoder, are kept for later batches.
    """
    if loaded.is_encoder_decoder:
        return EncoderDecoderSteppers(loaded, batch_tokens)
    reason = PackedSteppers.fits(loaded.model)
    if not reason:
        before = loaded.model.config._attn_implementation
        packed = PackedSteppers(loaded, batch_tokens)
        reason = _try(loaded, packed, before)
        if not reason:
            return packed
        loaded.model.set_attn_implementation(before)
    _LOG.info("%s: padded batches, as the packed path is not for it: %s", loaded.name, reason)
    return CachedSteppers(loaded)


def _try(loaded: LoadedModel, packed: PackedSteppers, before: str) -> str:
    """Why packed batches do not give what plain passes, with the attention of `before`, give; empty where they do."""

    def open_batch(prompts: Sequence[Sequence[int]]) -> Stepper:
        loaded.model.set_attn_implementation(IMPLEMENTATION)
        return packed.open(prompts, shared_lengths(prompts, group_cost=0))

    def run_alone(prompt: list[int], tokens: list[int]) -> torch.Tensor:
        loaded.model.set_attn_implementation(before)
        return loaded.run_alone(prompt, tokens)

    try:
        with Progress(_LOG, f"{loaded.name}: checking packed against plain passes"):
            reasons = (find_difference(loaded.model, open_batch, run_alone, (2, 3), n) for n in (0, 4))
            return next(filter(None, reasons), "")
    finally:
        loaded.model.set_attn_implementation(IMPLEMENTATION)
        packed.forget()
        loaded.free_memory()


def check(model: Model) -> None:
    """Look at once for what a reader needs. Errors: `BackendError`."""
    if not model.encoder_decoder:
        raise BackendError(
            f"model {model.name}: backend {model.backend} needs an encoder-decoder; set encoder_decoder: true"
        )
    check_folder(model)


class FusionInDecoder(TransformersBackend):
    """An encoder-decoder in memory that reads passages apart."""

    capabilities = TransformersBackend.capabilities | {PASSAGES}
    no_tokens = Failure("the prompt leaves no room for a passage; raise passage_tokens of the model")

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        check(model)
        super().__init__(model, secret)
        self._passage_tokens = model.passage_tokens

    @staticmethod
    def identify(model: Model) -> Identity:
        """As for any model; the length of a passage is one of the rules, since it decides the text."""
        identity = TransformersBackend.identify(model)
        rule = f"passage_tokens={model.passage_tokens}"
        return dataclasses.replace(identity, rules=f"{identity.rules} {rule}".strip())

    def _encode(self, prompts: Sequence[str], passages: Sequence[Sequence[str]]) -> list[Tokens]:
        """Each prompt's parts as one list of tokens, not cut; empty where the prompt leaves a passage no room."""
        owned = [tuple(texts) for texts in passages] or [()] * len(prompts)
        return encode_apart(self._loaded, prompts, owned, self._passage_tokens)

    def _fit(self, tokens: Sequence[int], n_new: int) -> Tokens:
        """The parts, each cut at its end but for the end token. Errors: `BackendError` where no new token fits."""
        return keep(self._loaded, tokens, n_new, self._passage_tokens)


def encode_apart(
    loaded: LoadedModel, prompts: Sequence[str], passages: Sequence[Sequence[str]], passage_tokens: int
) -> list[Tokens]:
    """Each prompt's parts as one list of tokens, not cut; empty where the prompt leaves a passage no room."""
    texts = [
        [f"{prompt} {passage}" for passage in texts_of_prompt] or [prompt]
        for prompt, texts_of_prompt in zip(prompts, passages, strict=True)
    ]
    parts = iter(loaded.encode([text for texts_of_prompt in texts for text in texts_of_prompt]))
    encoded = [join_parts(next(parts) for _ in texts_of_prompt) for texts_of_prompt in texts]
    with_passages = [place for place, texts_of_prompt in enumerate(passages) if texts_of_prompt]
    alone = loaded.encode([prompts[place] for place in with_passages])
    for place, tokens in zip(with_passages, alone, strict=True):
        if len(tokens) >= passage_tokens:
            encoded[place] = ()
    return encoded


def keep(loaded: LoadedModel, tokens: Sequence[int], n_new: int, passage_tokens: int) -> Tokens:
    """The parts, each cut at its end but for the end token. Errors: `BackendError` where no new token fits."""
    room = loaded.room(n_new)
    limit = passage_tokens if room is None else min(room, passage_tokens)
    return join_parts(_cut_part(part, limit, loaded.end_ids) for part in parts_of(tokens))


def _cut_part(part: Sequence[int], limit: int, ends: frozenset[int]) -> Sequence[int]:
    """The first `limit` tokens; the end token stays the last."""
    if len(part) <= limit:
        return part
    return [*part[: limit - 1], part[-1]] if part[-1] in ends else part[:limit]
