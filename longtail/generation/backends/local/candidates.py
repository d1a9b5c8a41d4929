"""Candidate continuations as token ids, as the tokenizer splits them behind their prompt.

A tokenizer may split a text differently behind another one, or melt the two at the seam. So a candidate is
tokenized behind the prompt's last word, and that word's tokens are taken off; where the seam melts, behind the
whole prompt, and its score then begins at the first token that is not the prompt's.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from longtail.generation.backends.local.prefixes import common_length
from longtail.generation.backends.local.scoring import Continuation

_LAST_WORD = re.compile(r"\s?\S*\s*\Z")
_MAX_KEPT = 256

Targets = Callable[[tuple[str, ...]], Sequence[Continuation]]
_Split = list[tuple[int, ...] | None]


class CandidateTokens:
    """Continuations of prompts, by one tokenizer; those behind the same last word are found once, as are targets."""

    def __init__(self, tokenizer: Any, targets: Targets | None) -> None:
        """`targets`: an encoder-decoder's own way, None for others."""
        self._tokenizer = tokenizer
        self._targets = targets and functools.lru_cache(_MAX_KEPT)(targets)
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], tuple[list[int], _Split]] = OrderedDict()

    def continuations(
        self, prompt: str, tokens: Sequence[int], candidates: Sequence[str]
    ) -> tuple[int, list[Continuation]]:
        """How many of the prompt's `tokens` stand before all continuations, and the continuations.

        An encoder-decoder's target has no prompt before it: candidates stand alone.
        """
        if self._targets is not None:
            return len(tokens), list(self._targets(tuple(candidates)))
        split = self._behind_last_word(prompt, tokens, tuple(candidates))
        melted = [i for i, own in enumerate(split) if own is None]
        whole = self._encode([prompt + candidates[i] for i in melted], special=True)
        seams = [common_length(list(tokens), own) for own in whole]
        n_before = min([len(tokens), *seams])
        rest = tuple(tokens[n_before:])
        found = [Continuation(rest + (own or ()), len(rest)) for own in split]
        for i, own, seam in zip(melted, whole, seams, strict=True):
            found[i] = Continuation(tuple(own[n_before:]), seam - n_before)
        return n_before, found

    def _behind_last_word(self, prompt: str, tokens: Sequence[int], candidates: tuple[str, ...]) -> _Split:
        """Each candidate's tokens; None where the seam melts."""
        match = _LAST_WORD.search(prompt)
        word = match.group() if match else ""
        for anchor in dict.fromkeys((word, word.lstrip())):
            if anchor:
                head, split = self._split(anchor, candidates)
                if head and list(tokens[-len(head) :]) == head:
                    return split
        return [None] * len(candidates)

    def _split(self, anchor: str, candidates: tuple[str, ...]) -> tuple[list[int], _Split]:
        key = (anchor, candidates)
        if key not in self._kept:
            head, *whole = self._encode([anchor, *(anchor + candidate for candidate in candidates)])
            n = len(head)
            split: _Split = [tuple(own[n:]) if own[:n] == head else None for own in whole]
            self._kept[key] = head, split
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _encode(self, texts: Sequence[str], *, special: bool = False) -> list[list[int]]:
        if not texts:
            return []
        # a tokenizer takes no lone surrogates
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        ids: list[list[int]] = self._tokenizer(clean, verbose=False, add_special_tokens=special)["input_ids"]
        return ids
