"""Fusion-in-Decoder readers (Izacard & Grave, 2021), as in Atlas: any T5 checkpoint whose decoder reads many passages.

Each passage is encoded behind the prompt's text, alone, and the decoder attends to the states of all of them. A passage
loses its end where prompt and passage have more than `passage_tokens` tokens; a prompt that leaves a passage no room is
a `Failure`. A prompt without passages is read as any encoder-decoder reads it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    Failure,
    Identity,
    Secret,
)
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local.accounts import Tokens
from longtail.generation.backends.local.fusion import joined, parts_of
from longtail.generation.backends.local.loading import LoadedModel
from longtail.models.weights import check_folder
from longtail.study.backends import PASSAGES
from longtail.study.models import Model


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
        found = TransformersBackend.identify(model)
        own = f"passage_tokens={model.passage_tokens}"
        return dataclasses.replace(found, rules=f"{found.rules} {own}".strip())

    def _encoded(self, prompts: Sequence[str], passages: Sequence[Sequence[str]]) -> list[Tokens]:
        """Each prompt's parts as one list of tokens, not cut; empty where the prompt leaves a passage no room."""
        owned = [tuple(own) for own in passages] or [()] * len(prompts)
        return encode_apart(self._loaded, prompts, owned, self._passage_tokens)

    def _kept(self, tokens: Sequence[int], n_new: int) -> Tokens:
        """The parts, each cut at its end but for the end token. Errors: `BackendError` where no new token fits."""
        return keep(self._loaded, tokens, n_new, self._passage_tokens)


def encode_apart(
    loaded: LoadedModel, prompts: Sequence[str], passages: Sequence[Sequence[str]], passage_tokens: int
) -> list[Tokens]:
    """Each prompt's parts as one list of tokens, not cut; empty where the prompt leaves a passage no room."""
    texts = [
        [f"{prompt} {passage}" for passage in own] or [prompt]
        for prompt, own in zip(prompts, passages, strict=True)
    ]
    parts = iter(loaded.encode([text for own in texts for text in own]))
    found = [joined(next(parts) for _ in own) for own in texts]
    with_passages = [place for place, own in enumerate(passages) if own]
    alone = loaded.encode([prompts[place] for place in with_passages])
    for place, tokens in zip(with_passages, alone, strict=True):
        if len(tokens) >= passage_tokens:
            found[place] = ()
    return found


def keep(loaded: LoadedModel, tokens: Sequence[int], n_new: int, passage_tokens: int) -> Tokens:
    """The parts, each cut at its end but for the end token. Errors: `BackendError` where no new token fits."""
    room = loaded.room(n_new)
    limit = passage_tokens if room is None else min(room, passage_tokens)
    return joined(_cut(part, limit, loaded.end_ids) for part in parts_of(tokens))


def _cut(part: Sequence[int], limit: int, ends: frozenset[int]) -> Sequence[int]:
    """The first `limit` tokens; the end token stays the last."""
    if len(part) <= limit:
        return part
    return [*part[: limit - 1], part[-1]] if part[-1] in ends else part[:limit]
