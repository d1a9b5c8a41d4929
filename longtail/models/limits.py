"""What a model can take: how long its inputs and outputs may be, which rows are a batch, and when memory ran out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_LENGTHS = (
    "max_encoder_position_embeddings",
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "n_ctx",
)
"""The names under which configurations declare the longest input, in tokens."""
_DECODER_LENGTHS = ("max_decoder_position_embeddings", "max_position_embeddings")
_NO_LENGTH = 1 << 24
"""Tokenizers without a limit say an absurdly large one."""
_OUT_OF_MEMORY = ("allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Messages of the CPU's allocator, of CUDA and of its libraries, which raise errors of general kinds."""


def is_encoder_decoder(config: Any) -> bool:
    """Whether a configuration is an encoder-decoder's."""
    return bool(getattr(config, "is_encoder_decoder", False))


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text: those of the generation settings, as for `generate`. Where these name none, those
    of the configuration and the tokenizer. Empty where nothing is declared.
    """
    ids = _ids(model.generation_config.eos_token_id)
    return ids or _ids(model.config.eos_token_id) | _ids(tokenizer.eos_token_id)


def _ids(named: Any) -> frozenset[int]:
    return frozenset(i for i in (named if isinstance(named, list) else [named]) if i is not None)


def input_length(config: Any, tokenizer: Any) -> int | None:
    """The longest input in tokens: what the configuration declares, else the tokenizer; None where neither does.

    T5 counts relative positions, so nothing in it ends at a length. The length that its checkpoints declare (512, that of
    pretraining) holds all the same. mT5's checkpoints declare none and take any length.
    """
    text = config if is_encoder_decoder(config) else config.get_text_config()
    declared = (getattr(text, name, None) for name in _LENGTHS)
    longest = next((length for length in declared if isinstance(length, int) and length > 0), None)
    if longest is None and tokenizer.model_max_length < _NO_LENGTH:
        longest = int(tokenizer.model_max_length)
    return longest


def decoder_length(config: Any) -> int | None:
    """The longest text of a separate decoder in tokens; None where nothing declares it."""
    return next((n for name in _DECODER_LENGTHS if (n := getattr(config, name, None))), None)


def input_limit(tokenizer: Any, config: Any) -> int | None:
    """How many tokens an encoder without a decoder reads at once; None where nothing says it."""
    declared = getattr(config, "max_position_embeddings", None) or 0
    # the first positions of RoBERTa and its kin belong to padding
    has_padding = any(kin in config.model_type for kin in ("roberta", "mpnet", "camembert"))
    places = declared - (config.pad_token_id + 1 if has_padding else 0)
    known = [n for n in (tokenizer.model_max_length, places) if 0 < n < _NO_LENGTH]
    return min(known, default=None)


def plan_batches(prompts: Sequence[Sequence[int]], new_tokens: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of `prompts` in batches of at most `budget` tokens (a batch of one may exceed it).

    A row costs its tokens and its `new_tokens`, padded to the batch's longest row, so rows of similar cost are together.
    """
    cost = [len(prompt) + new for prompt, new in zip(prompts, new_tokens, strict=True)]
    planned: list[list[int]] = []
    for row in sorted(range(len(cost)), key=cost.__getitem__):
        if not planned or (len(planned[-1]) + 1) * cost[row] > budget:
            planned.append([])
        planned[-1].append(row)
    return planned


GROUP_COST = 32
"""A separate group costs about as much as this many tokens: it must save more than that."""


@dataclass(frozen=True)
class Group:
    """Rows whose prompts begin with the same `n_shared` tokens; a row alone shares none."""

    rows: tuple[int, ...]
    n_shared: int


@dataclass(eq=False)
class _Beginning:
    """A node of the tree of beginnings: `depth` tokens with which neighbours among the sorted prompts begin.

    `rows` are in no longer beginning; `longer` are its children. `saved[x]` is the most that all rows below it save if
    the group around it shares x tokens.
    """

    depth: int
    rows: list[int] = field(default_factory=list)
    longer: list[_Beginning] = field(default_factory=list)
    saved: dict[int, int] = field(default_factory=dict)

    def saved_within(self, n_shared: int) -> int:
        """The most that all rows below it save in a group that shares so many tokens, or in smaller groups."""
        return len(self.rows) * n_shared + sum(child.saved[n_shared] for child in self.longer)


def group_by_prefix(prompts: Sequence[Sequence[int]], group_cost: int = GROUP_COST) -> list[Group]:
    """The grouping, with one prefix per row, that saves most tokens; every prompt keeps at least one own token.

    A group of n rows saves (n - 1) times its prefix, less `group_cost`. Groups come in the order of their
    prompts' tokens, each row without one as a group of its own. A row is best in the longest of the chosen beginnings
    that it has. Which ones to choose is decided on the tree of beginnings: bottom up, each one finds what it saves
    within every beginning around it; top down, it is chosen if a group of its own saves more.
    """
    if not prompts:
        return []
    order = sorted(range(len(prompts)), key=lambda row: tuple(prompts[row]))
    in_order = [prompts[row] for row in order]
    # each prompt has a token behind what it shares
    depths = [min(common_length(a, b), len(a) - 1, len(b) - 1) for a, b in pairwise(in_order)]
    opened = [_Beginning(0)]
    for row, depth in zip(order, [*depths, 0], strict=True):
        if opened[-1].depth < depth:
            opened.append(_Beginning(depth))
        opened[-1].rows.append(row)
        while opened[-1].depth > depth:
            closed = opened.pop()
            if opened[-1].depth < depth:
                opened.append(_Beginning(depth))
            opened[-1].longer.append(closed)
    tree: list[tuple[_Beginning, tuple[int, ...]]] = [(opened[0], (0,))]
    for beginning, depths_around in tree:
        tree += [(longer, (*depths_around, beginning.depth)) for longer in beginning.longer]
    for beginning, depths_around in reversed(tree):
        alone = beginning.saved_within(beginning.depth) - beginning.depth - group_cost
        beginning.saved = {n: max(beginning.saved_within(n), alone) for n in depths_around}
    groups: dict[object, list[int]] = {}
    prefix_of: dict[int, _Beginning] = {}
    waiting = [(opened[0], opened[0])]
    while waiting:
        beginning, around = waiting.pop()
        if beginning.saved[around.depth] > beginning.saved_within(around.depth):
            around = beginning
        prefix_of |= dict.fromkeys(beginning.rows, around)
        waiting += [(longer, around) for longer in beginning.longer]
    for row in order:
        groups.setdefault(prefix_of[row] if prefix_of[row].depth else row, []).append(row)
    return [Group(tuple(rows), prefix_of[rows[0]].depth) for rows in groups.values()]


def shared_lengths(prompts: Sequence[Sequence[int]], group_cost: int = GROUP_COST) -> list[int]:
    """How many of its first tokens each prompt shares with its group of `group_by_prefix`."""
    n_shared = {row: group.n_shared for group in group_by_prefix(prompts, group_cost) for row in group.rows}
    return [n_shared[row] for row in range(len(prompts))]


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common beginning: by halves, as comparing slices is much faster than comparing items."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had too little memory."""
    import torch

    text = str(error)
    said = any(words in text for words in _OUT_OF_MEMORY)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or said


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
