"""Encoder-decoder models: the encoder runs once per prompt or part of one, the decoder by states.

The parts of a prompt are encoded apart, and the decoder reads all of them (Fusion-in-Decoder). A prompt's cross-attention
keys and values are computed once, and all its states read the same ones: a copy for each state would take 7.5 GB for 200
candidates after 512 tokens of t5-base. The function recognises cross-attention where the number of rows differs from that
of queries; where both numbers are equal, every state must have its own row. Where an architecture does not allow sharing,
each state gets its own copy.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import TYPE_CHECKING, Any

from longtail.errors import BackendError
from longtail.generation.backends.local.loading import LoadedModel, find_difference, pad
from longtail.generation.backends.local.passes import Seats
from longtail.generation.backends.local.scoring import Continuation
from longtail.models.limits import plan_batches
from longtail.relations.cloze import SENTINEL, WORD_START

if TYPE_CHECKING:
    import numpy as np
    import torch


_LOG = logging.getLogger(__name__)
_MOST_ALIVE = 0.75
_KEPT = 2
"""Prompts of so many device batches are kept encoded: as many as one call of the engine has."""


class EncoderDecoderSteppers:
    """Batches of one encoder-decoder model, of about `batch_tokens` tokens. Constructing it runs a few through the model.

    Errors: `BackendError` where the model names no decoder start token, or where forked batches do not give
    what the prompts give alone.
    """

    def __init__(self, loaded: LoadedModel, batch_tokens: int) -> None:
        self.loaded = loaded
        self.states = KeptStates(loaded.model.get_encoder(), loaded.device, _KEPT * batch_tokens)
        self.start = _start_token(loaded)
        self.is_shared = False
        error = "" if self._share() else self._check()
        if error:
            raise loaded.refuse_batches(error)

    def _share(self) -> bool:
        """Let states share their prompt's keys and values; False where the architecture does not allow it."""
        model = self.loaded.model
        if model.config._attn_implementation not in ("sdpa", CROSS_ATTENTION):
            return False
        register_cross_attention()
        model.set_attn_implementation(CROSS_ATTENTION)
        self.is_shared = True
        error = self._check()
        if error:
            model.set_attn_implementation("sdpa")
            self.is_shared = False
            _LOG.info("%s: cross-attention is copied for each state (%s)", self.loaded.name, error)
        return self.is_shared

    def _check(self) -> str:
        """Why batches cannot be had like this; empty where they can."""
        self.forget()
        run_alone = functools.partial(self.loaded.run_alone, start=self.start)
        return find_difference(self.loaded.model, self.open, run_alone)

    def batches(
        self, prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int
    ) -> list[dict[int, int]]:
        """Rows of similar length: they are padded."""
        return [dict.fromkeys(batch, 0) for batch in plan_batches(prompts, new_tokens, budget)]

    def forget(self) -> None:
        """Drop the encoder's states of the prompts that were read last."""
        self.states.forget()

    def open(self, prompts: Sequence[Sequence[int]], shared: Sequence[int] = ()) -> EncoderDecoderStepper:
        """A batch over prompts of the encoder, each of at least one token id."""
        return EncoderDecoderStepper(self, prompts)

    def targets(self, candidates: Sequence[str]) -> list[Continuation]:
        """The tokens forced on the decoder: each text is a target of its own, without the end token (SPEC §8).

        A sentinel such as `<extra_id_0>` that stands in the text is part of it. Where `WORD_START` stands behind the
        sentinel, the token of that piece does too, whatever a tokenizer would make of it. A token that the decoder is
        forced to begin with (BART) is read, but not scored. Errors: `BackendError` where the tokenizer has no sentinel.
        """
        ids = self._encode_targets(candidates)
        named = self.loaded.settings.followed.get("forced_bos_token_id")
        forced = [] if named is None else [named]
        free = [tokens[len(forced) :] if tokens[: len(forced)] == forced else tokens for tokens in ids]
        return [Continuation((*forced, *tokens), len(forced)) for tokens in free]

    def _encode_targets(self, candidates: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, without the end token."""
        behind = f"{SENTINEL}{WORD_START}"
        texts = [text.replace(behind, SENTINEL, 1) for text in candidates]
        ids = self.loaded.encode(texts)
        for tokens in ids:
            while tokens and tokens[-1] in self.loaded.end_ids:
                tokens.pop()
        if not any(text.startswith(SENTINEL) for text in texts):
            return ids
        known = self.loaded.tokenizer.get_vocab()
        if SENTINEL not in known:
            raise BackendError(
                f"model {self.loaded.name}: its tokenizer has no {SENTINEL}, which cloze_t5 needs"
            )
        piece = [known[WORD_START]] if WORD_START in known else []
        return [
            [tokens[0], *piece, *tokens[1:]] if text.startswith(behind) else tokens
            for text, tokens in zip(candidates, ids, strict=True)
        ]


def _start_token(loaded: LoadedModel) -> list[int]:
    settings, of_config = (
        loaded.model.generation_config,
        getattr(loaded.model.config, "decoder_start_token_id", None),
    )
    for start in (settings.decoder_start_token_id, of_config, settings.bos_token_id):
        if start is not None:
            return [start[0] if isinstance(start, list) else start]
    raise BackendError(
        f"model {loaded.name}: its files name no decoder_start_token_id; add it to generation_config.json"
    )


class EncoderDecoderStepper:
    """One batch: encoded prompts, and the decoder's caches."""

    def __init__(self, steppers: EncoderDecoderSteppers, prompts: Sequence[Sequence[int]]) -> None:
        import numpy as np

        self.shared_tokens = [0] * len(prompts)
        self._steppers, self._prompts = steppers, prompts
        self._model, self._device = steppers.loaded.model, steppers.loaded.device
        self._encoded: Any = None
        self._mask: Any = None
        self._cache: Any = None
        self._owners = np.arange(len(prompts))
        """For each state the row of its prompt in `_mask`, `_encoded` and the cross-attention's cache."""

    def start(self) -> torch.Tensor:
        """As in `Stepper`; the first free token of the decoder comes first."""
        import torch
        from transformers import DynamicCache, EncoderDecoderCache

        self._encoded, self._mask, self.shared_tokens = self._steppers.states.read(self._prompts)
        decoder = self._model.config.get_text_config(decoder=True)
        slides = getattr(decoder, "sliding_window", None) or getattr(decoder, "layer_types", None)
        # only where windows slide, as some configurations count the encoder's layers
        of_decoder = {"config": self._model.config} if slides else {}
        self._cache = EncoderDecoderCache(DynamicCache(**of_decoder), DynamicCache())
        start = torch.tensor([self._steppers.start], device=self._device)
        return self._forward(start.expand(len(self._mask), -1))

    def step(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        import torch

        if list(parents) != list(range(len(self._owners))):
            self._cache.self_attention_cache.reorder_cache(torch.tensor(parents, device=self._device))
            self._owners = self._owners[list(parents)]
            self._drop_prompts()
        return self._forward(torch.tensor(tokens, device=self._device)[:, None])

    def _drop_prompts(self) -> None:
        """Give each state a row of its own where rows cannot be shared.

        Otherwise drop the rows of finished prompts once they are a quarter: each drop copies the rows that stay.
        """
        import numpy as np

        if not self._steppers.is_shared:
            self._select_prompts(self._owners)
            self._owners = np.arange(len(self._owners))
            return
        alive, owners = np.unique(self._owners, return_inverse=True)
        is_ambiguous = len(self._mask) == len(self._owners)  # see `cross_attention`
        if len(alive) < len(self._mask) and (is_ambiguous or len(alive) <= _MOST_ALIVE * len(self._mask)):
            self._select_prompts(alive)
            self._owners = owners

    def _select_prompts(self, rows: np.ndarray) -> None:
        import torch

        index = torch.from_numpy(rows).to(self._device)
        self._cache.cross_attention_cache.reorder_cache(index)
        self._mask = self._mask[index]
        self._encoded.last_hidden_state = self._encoded.last_hidden_state[index]

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        n_prompts = len(self._mask)
        is_alone = len(self._owners) == n_prompts
        reset = _SEATS.set(None if is_alone else Seats.of(self._owners, n_prompts, self._device))
        try:
            out = self._model(
                encoder_outputs=self._encoded,
                attention_mask=self._mask,
                decoder_input_ids=ids,
                past_key_values=self._cache,
                use_cache=True,
            )
        finally:
            _SEATS.reset(reset)
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits


CROSS_ATTENTION = "longtail_shared_cross_attention"


_SEATS: ContextVar[Seats | None] = ContextVar("_SEATS", default=None)
"""Which states belong to which prompt in the forward pass under way, for models whose attention is `CROSS_ATTENTION`."""


def register_cross_attention() -> None:
    """Make `CROSS_ATTENTION` known to transformers as an attention implementation."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(CROSS_ATTENTION, _attention)
    AttentionMaskInterface.register(CROSS_ATTENTION, sdpa_mask)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`query` (states, heads, 1, size), `key` and `value` (prompts, heads, tokens, size): (states, 1, heads, size)."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    seats = _SEATS.get()
    if seats is None or len(key) == len(query):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    _, heads, _, size = query.shape
    grid = query.new_zeros(seats.rows * seats.widest, heads, size)
    grid[seats.seat_of_query] = query[:, :, 0]
    rows = grid.view(seats.rows, seats.widest, heads, size).transpose(1, 2)
    kwargs["is_causal"] = False
    out, _ = sdpa_attention_forward(module, rows, key, value, attention_mask, **kwargs)
    return out.reshape(seats.rows * seats.widest, heads, -1)[seats.seat_of_query][:, None], None


BREAK = -1
"""Stands between the parts of a prompt. It is no token, and costs as much as one when batches are planned."""


def join_parts(parts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Parts as one list of tokens. A prompt of one part is its own list."""
    return tuple(chain.from_iterable((BREAK, *part) for part in parts))[1:]


def parts_of(prompt: Sequence[int]) -> list[list[int]]:
    """The parts of a prompt; at least one."""
    parts: list[list[int]] = [[]]
    for token in prompt:
        if token == BREAK:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def tokens_of(prompt: Sequence[int]) -> Sequence[int]:
    return [token for token in prompt if token != BREAK] if BREAK in prompt else prompt


def encode(encoder: Any, prompts: Sequence[Sequence[int]], device: Any) -> tuple[Any, torch.Tensor]:
    """The encoder's output for each prompt, its parts behind one another without padding, and the mask.

    `last_hidden_state` is (n_prompts, longest, width), the mask (n_prompts, longest); `longest` is the length of the
    longest prompt. Padding is at the end of a prompt, never between its parts.
    """
    from torch.nn.utils.rnn import pad_sequence

    parts = [parts_of(prompt) for prompt in prompts]
    ids, mask = pad([part for parts_of_prompt in parts for part in parts_of_prompt], device)
    out = encoder(input_ids=ids, attention_mask=mask)
    if len(ids) == len(prompts):
        return out, mask
    lengths = [sum(map(len, parts_of_prompt)) for parts_of_prompt in parts]
    states = out.last_hidden_state[mask.bool()].split(lengths)
    out.last_hidden_state = pad_sequence(list(states), batch_first=True)
    return out, pad([[0] * length for length in lengths], device)[1]


class KeptStates:
    """The encoder's states of the prompts that were read last, about `most` tokens of them.

    Candidates are scored and a text is written behind the same prompts: the encoder reads them once for both.
    """

    def __init__(self, encoder: Any, device: Any, most: int) -> None:
        self._encoder, self._device, self._most = encoder, device, most
        self._kept: dict[tuple[int, ...], torch.Tensor] = {}

    def read(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, torch.Tensor, list[int]]:
        """As `encode`; and how many tokens of each prompt had been read before."""
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        keys = [tuple(prompt) for prompt in prompts]
        known = {key: self._kept[key] for key in keys if key in self._kept}
        states_of, new = dict(known), [key for key in keys if key not in known]
        if new:
            out, mask = encode(self._encoder, new, self._device)
            rows = zip(out.last_hidden_state, mask.sum(dim=1).tolist(), strict=True)
            states_of |= {key: states[:length] for key, (states, length) in zip(new, rows, strict=True)}
            self._keep({key: states_of[key] for key in new})
        if known:
            out = BaseModelOutput(last_hidden_state=pad_sequence([states_of[key] for key in keys], True))
            mask = pad([[0] * len(states_of[key]) for key in keys], self._device)[1]
        return out, mask, [len(known.get(key, ())) for key in keys]

    def forget(self) -> None:
        self._kept.clear()

    def _keep(self, states: dict[tuple[int, ...], torch.Tensor]) -> None:
        """Keep these; drop the oldest others."""
        self._kept |= states
        n_tokens = sum(map(len, self._kept.values()))
        for key in [key for key in self._kept if key not in states]:
            if n_tokens <= self._most:
                break
            n_tokens -= len(self._kept.pop(key))
