"""Prompts to the letter, passages cut as SPEC §3 says, and answers cut out of generations."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.core.errors import LongtailError
from dagster_project.core.generation.prompts import (
    Passage,
    Question,
    bare_prompt,
    build_prompt,
    cut_answer,
    is_answer_complete,
    passage_text,
    prompt_hash,
)
from dagster_project.core.retrieval.base import VERBALISED

LINES = st.lists(st.sampled_from(["\n", "\n\n", "a", " b", ""]), max_size=8).map("".join)
ASKED = Question("Q1-P36", "capital", "What is the capital of Utopia?", "Amaurot")
SHOWN = Question("Q2-P50", "author", "Who is the author of Emma?", "Jane Austen")
BARE = Question("Q3-P22", "father", "Who is the father of Ann?", "Bo")
PASSAGES = {
    "Q1-P36": Passage("Q1-0", "Utopia is far. Its capital is", "wikipedia"),
    "Q2-P50": Passage("Q2-0", "Emma. A book", "wikipedia"),
}


def test_zero_shot_formats() -> None:
    built = build_prompt(ASKED, "qa", "closed_book")
    assert built.text == "Q: What is the capital of Utopia? A:"
    assert (built.demonstration_ids, built.passage_id) == ((), None)
    assert build_prompt(ASKED, "question_answer", "closed_book").text == bare_prompt(
        "What is the capital of Utopia?", "question_answer"
    )
    assert bare_prompt("Why?", "question_answer") == "Question: Why?\nAnswer:"


def test_few_shot_with_and_without_passages() -> None:
    closed = build_prompt(ASKED, "qa", "closed_book", [SHOWN, BARE])
    assert closed.text == (
        "Q: Who is the author of Emma? A: Jane Austen\n\nQ: Who is the father of Ann? A: Bo\n\n"
        "Q: What is the capital of Utopia? A:"
    )
    assert closed.demonstration_ids == ("Q2-P50", "Q3-P22")
    opened = build_prompt(ASKED, "qa", "bm25", [SHOWN, BARE], PASSAGES)
    assert opened.text == (
        "Emma. A book\n\nQ: Who is the author of Emma? A: Jane Austen\n\n"
        "Q: Who is the father of Ann? A: Bo\n\n"
        "Utopia is far. Its capital is\n\nQ: What is the capital of Utopia? A:"
    )
    assert opened.passage_id == "Q1-0"
    dense = build_prompt(ASKED, "question_answer", "dense", [SHOWN], PASSAGES)
    assert dense.text == (
        "Emma.\n\nQuestion: Who is the author of Emma?\nAnswer: Jane Austen\n\n"
        "Utopia is far.\n\nQuestion: What is the capital of Utopia?\nAnswer:"
    )


def test_a_question_without_its_passage_cannot_be_asked() -> None:
    with pytest.raises(LongtailError, match="Q3-P22 has no passage of oracle"):
        build_prompt(BARE, "qa", "oracle", [], PASSAGES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two. Thr", "One. Two."),
        ("One. Two.", "One."),
        ("Only one piece.", "Only one piece."),
        (". tail", ". tail"),
        ("", ""),
        ("No. 5 is. ", "No. 5 is."),
    ],
)
def test_dense_passages_lose_their_last_piece(text: str, expected: str) -> None:
    broken = Passage("Q1-0", text, "wikipedia")
    assert passage_text(broken, "dense") == expected
    assert passage_text(broken, "bm25") == passage_text(broken, "oracle") == text


def test_verbalised_passages_stay_whole() -> None:
    text = "Ada's occupation is writer. Ada was born in Rome."
    passages = {"Q1-P36": Passage("Q1-0", text, VERBALISED)}
    for method in ("bm25", "dense", "oracle"):
        built = build_prompt(ASKED, "qa", method, [], passages)
        assert built.text == f"{text}\n\nQ: What is the capital of Utopia? A:"


@given(st.text(alphabet="a. ", max_size=30))
def test_the_cut_by_the_last_separator(text: str) -> None:
    head, separator, _ = text.rpartition(". ")
    expected = head + "." if separator and head.strip() else text
    assert passage_text(Passage("Q1-0", text, "sandbox"), "dense") == expected


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


@given(LINES, LINES)
def test_a_complete_answer_does_not_change_with_more_text(raw: str, more: str) -> None:
    if is_answer_complete(raw):
        assert cut_answer(raw + more) == cut_answer(raw)
    else:
        assert any(cut_answer(raw + tail) != cut_answer(raw) for tail in ("x", "\nx"))


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=20))
def test_prompt_hash_tells_texts_apart(left: str, right: str) -> None:
    assert (prompt_hash(left) == prompt_hash(right)) == (left == right)


def test_prompt_hash_is_sha256_of_utf8() -> None:
    assert prompt_hash("é\x00\U0001f9ed") == hashlib.sha256("é\x00\U0001f9ed".encode()).hexdigest()
