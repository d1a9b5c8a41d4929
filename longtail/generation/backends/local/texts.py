"""Token ids as text, and the end of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from longtail.generation.prompts.endings import AFTER_THINKING, END, FIRST_LINE, is_complete

_LINE_END = frozenset("\n")
_SENTENCE_END = frozenset("\n.!?…")


class Texts:
    """One tokenizer's texts, special tokens left out."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._alone: dict[int, str] = {}
        added = tokenizer.added_tokens_decoder.items()
        self.special_ids = frozenset(number for number, token in added if token.special)

    def is_done(self, end: str) -> Callable[[list[int]], bool]:
        """Tells of the tokens of a text whether the text is complete up to `end`.

        A text is decoded only where some token can make it complete; other texts cost nothing. A first line is
        completed by a token with a line end, or by the token after a line end that opened the text.
        """
        if end == END:
            return lambda tokens: False
        if end == FIRST_LINE or end.startswith(AFTER_THINKING):
            marks = _LINE_END if end.endswith(FIRST_LINE) else _SENTENCE_END
            return lambda tokens: self._any(tokens[-2:], marks) and self._is_complete(tokens, end)
        return lambda tokens: self._any(tokens, _SENTENCE_END) and self._is_complete(tokens, end)

    def _is_complete(self, tokens: list[int], end: str) -> bool:
        return is_complete(self.decode([tokens])[0], end)

    def _any(self, tokens: Sequence[int], marks: frozenset[str]) -> bool:
        """Whether some token holds one of the marks."""
        return any(not marks.isdisjoint(self.alone(token)) for token in tokens)

    def alone(self, token: int) -> str:
        """The text of one token without others around it."""
        if token not in self._alone:
            self._alone[token] = self.decode([[token]])[0]
        return self._alone[token]

    def decode(self, written: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of tokens."""
        if not written:
            return []
        texts: list[str] = self._tokenizer.batch_decode(
            list(written), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts
