"""The end of a text is found at the first token that completes what is kept of it."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from dagster_project.core.generation.backends.local.texts import Texts
from dagster_project.core.generation.prompts.endings import ENDS, is_complete, kept_text

PIECES = ("\n", "\n\n", " ", "a", "b\n", "\nc", "é", ". ", " He", "!")


class Pieces:
    """A tokenizer of few pieces."""

    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def batch_decode(self, written: list[list[int]], **options: Any) -> list[str]:
        return ["".join(PIECES[token] for token in tokens) for tokens in written]


@given(st.lists(st.integers(0, len(PIECES) - 1), min_size=1, max_size=12), st.sampled_from(ENDS))
def test_a_text_is_done_as_soon_as_it_is_complete(tokens: list[int], end: str) -> None:
    is_done_at = Texts(Pieces()).is_done(end)
    for n in range(1, len(tokens) + 1):
        text = "".join(PIECES[token] for token in tokens[:n])
        is_done = is_done_at(tokens[:n])
        assert is_done == is_complete(text, end)
        if is_done:
            assert kept_text(text, end) == kept_text("".join(PIECES[token] for token in tokens), end)
            break
