"""Token ids as text, and the end of an answer.

What belongs here: decoding by a model's tokenizer. What does not: what an answer is (`prompts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dagster_project.core.generation.prompts.build import is_answer_complete


class Texts:
    """One tokenizer's texts, special tokens left out."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._line_ends: dict[int, bool] = {}

    def is_done(self, tokens: list[int]) -> bool:
        """Whether the first line is complete: only a token with a line end can make it so, or the one after an answer
        that began with a lone line end; others cost nothing.
        """
        return any(map(self._ends_line, tokens[-2:])) and is_answer_complete(self.decode([tokens])[0])

    def _ends_line(self, token: int) -> bool:
        if token not in self._line_ends:
            self._line_ends[token] = "\n" in self.decode([[token]])[0]
        return self._line_ends[token]

    def decode(self, written: Sequence[list[int]]) -> list[str]:
        """The text of each list of tokens."""
        if not written:
            return []
        texts: list[str] = self._tokenizer.batch_decode(
            list(written), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts
