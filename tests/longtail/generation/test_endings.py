"""What is kept of a generated text, and when more of it can no longer change that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.generation.prompts.endings import (
    AFTER_THINKING,
    END,
    ENDS,
    FIRST_LINE,
    SENTENCE,
    answer_start,
    cut_answer,
    cut_text,
    is_complete,
)

PIECES = ["\n", "\n\n", "a", " b", "", " He", ".", ". ", " J.", "!", '"', " St", "\u2026"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (" Paris\nQ: next", " Paris"),
        ("\n\nParis\n\nQ:", "Paris"),
        ("\nParis", ""),
        ("\n\n\nParis", ""),
        ("", ""),
        (" no end", " no end"),
    ],
)
def test_answers_are_the_first_line(raw: str, answer: str) -> None:
    assert cut_answer(raw) == answer


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (" Paris. It is in France.\nQ: next", " Paris."),
        ("\n\nJ. R. R. Tolkien wrote it. He", "J. R. R. Tolkien wrote it."),
        (" Paris", " Paris"),
        ("\nParis. It", ""),
        ("", ""),
    ],
)
def test_rambling_answers_are_the_first_sentence_of_the_first_line(raw: str, answer: str) -> None:
    assert cut_text(raw, SENTENCE) == answer
    assert cut_text(raw, FIRST_LINE) == cut_answer(raw)
    assert cut_text(raw, END) == raw


@pytest.mark.parametrize(
    ("raw", "start", "line", "is_whole"),
    [
        ("<think>h\n\n\ni. j\n</think>\n\nParis. It\nQ:", 26, "Paris. It", True),
        ("h\n</think>\nParis", 11, "Paris", False),
        ("<think>\n\n</think>\n\n", 19, "", False),
        ("<think>Paris\nRome", None, "", False),
        ("Paris <think>h</think> or Rome\n", None, "", False),
        ("Paris\nRome", 0, "Paris", False),
        ("a < b\n", 0, "a < b", False),
    ],
)
def test_the_answer_is_what_follows_the_reasoning(
    raw: str, start: int | None, line: str, is_whole: bool
) -> None:
    assert (answer_start(raw), cut_answer(raw), is_complete(raw, f"{AFTER_THINKING}{FIRST_LINE}")) == (
        start, line, is_whole,
    )  # fmt: skip


@given(TEXTS, TEXTS.filter(str.strip), st.sampled_from(ENDS))
def test_reasoning_before_a_text_changes_nothing_of_what_is_kept(thoughts: str, raw: str, end: str) -> None:
    """Blanks between the two count for neither."""
    whole, raw = f"<think>{thoughts}</think>{raw}", raw.lstrip()
    assert cut_text(whole, f"{AFTER_THINKING}{end}") == cut_text(whole, end) == cut_text(raw, end)
    assert is_complete(whole, f"{AFTER_THINKING}{end}") == is_complete(raw, end)
    assert not is_complete(f"<think>{thoughts}", f"{AFTER_THINKING}{end}")


@given(TEXTS, TEXTS, st.sampled_from(ENDS))
def test_what_is_kept_of_a_complete_text_does_not_change_with_more(raw: str, more: str, end: str) -> None:
    if is_complete(raw, end):
        assert cut_text(raw + more, end) == cut_text(raw, end)


@given(TEXTS)
def test_an_incomplete_first_line_can_still_change(raw: str) -> None:
    if not is_complete(raw, FIRST_LINE):
        assert any(cut_answer(raw + tail) != cut_answer(raw) for tail in ("x", "\nx"))
