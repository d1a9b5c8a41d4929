"""The end of an answer is found at the first token that completes its first line."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dagster_project.core.generation.backends.local.texts import Texts
from dagster_project.core.generation.prompts.build import cut_answer, is_answer_complete

PIECES = ("\n", "\n\n", " ", "a", "b\n", "\nc", "é")


class Pieces:
    """A tokenizer of few pieces."""

    def batch_decode(self, written: list[list[int]], **options: Any) -> list[str]:
        return ["".join(PIECES[token] for token in tokens) for tokens in written]


@given(st.lists(st.integers(0, len(PIECES) - 1), min_size=1, max_size=12))
def test_an_answer_is_done_as_soon_as_it_is_complete(tokens: list[int]) -> None:
    texts = Texts(Pieces())
    for n in range(1, len(tokens) + 1):
        text = "".join(PIECES[token] for token in tokens[:n])
        is_done = texts.is_done(tokens[:n])
        assert is_done == is_answer_complete(text)
        if is_done:
            assert cut_answer(text) == cut_answer("".join(PIECES[token] for token in tokens))
            break
