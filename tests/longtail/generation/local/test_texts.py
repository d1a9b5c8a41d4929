"""The end of a text is found at the first token that completes what is kept of it."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from longtail.generation.backends.local.decoding import Texts
from longtail.generation.prompts.endings import (
    AFTER_THINKING,
    ENDS,
    FIRST_LINE,
    cut_text,
    is_complete,
)

PIECES = ("\n", "\n\n", " ", "a", "b\n", "\nc", "é", ". ", " He", "!", "<think>\n", "</think>")


class Pieces:
    """A tokenizer of few pieces."""

    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def batch_decode(self, written: list[list[int]], **options: Any) -> list[str]:
        return ["".join(PIECES[token] for token in tokens) for tokens in written]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.sampled_from(ENDS))
def test_a_text_is_done_as_soon_as_it_is_complete(tokens: list[int], end: str) -> None:
    is_done_at = Texts(Pieces()).is_done(end)
    for n in range(1, len(tokens) + 1):
        text = "".join(PIECES[token] for token in tokens[:n])
        is_done = is_done_at(tokens[:n])
        assert is_done == is_complete(text, end)
        if is_done:
            assert cut_text(text, end) == cut_text("".join(PIECES[token] for token in tokens), end)
            break


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 9), max_size=8))
def test_line_breaks_of_reasoning_end_no_text(thoughts: list[int], tokens: list[int]) -> None:
    end = f"{AFTER_THINKING}{FIRST_LINE}"
    is_done_at = Texts(Pieces()).is_done(end)
    whole = [10, *thoughts, 11, *tokens]
    done = [n for n in range(1, len(whole) + 1) if is_done_at(whole[:n])]
    assert done == [n for n in done if n > len(thoughts) + 2]
    complete = [
        n for n in range(1, len(whole) + 1) if is_complete("".join(PIECES[i] for i in whole[:n]), end)
    ]
    assert done[:1] == complete[:1]
