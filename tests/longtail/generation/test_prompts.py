"""Prompts to the letter, and passages cut as SPEC §3 says."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.generation.prompts.build import (
    Passage,
    Passages,
    Question,
    background_passage_id,
    bare_prompt,
    block,
    build_prompt,
    is_blank,
    text_as_read,
)
from longtail.methods import METHODS, VERBALISED
from longtail.prompt_formats import BACKGROUND_TEMPLATE, FORMATS
from longtail.storage.fingerprints import prompt_hash
from longtail.study.prompts import PROMPT_FORMATS

ASKED = Question("Q1-P36", "capital", "What is the capital of Utopia?", "Amaurot")
SHOWN = Question("Q2-P50", "author", "Who is the author of Emma?", "Jane Austen")
BARE = Question("Q3-P22", "father", "Who is the father of Ann?", "Bo")
QA, LONG = FORMATS["qa"], FORMATS["question_answer"]
FOUND = {
    "Q1-P36": Passage("Q1-0", "Utopia is far. Its capital is"),
    "Q2-P50": Passage("Q2-0", "Emma. A book"),
}
PASSAGES = Passages(FOUND, FOUND)


def test_every_format_of_a_study_has_its_template() -> None:
    assert set(FORMATS) == set(PROMPT_FORMATS)
    assert bare_prompt("Why?", QA) == "Q: Why? A:"
    assert bare_prompt("Why?", LONG) == "Question: Why?\nAnswer:"
    assert bare_prompt("Why?", FORMATS["question"]) == "Why?"


def test_genread_asks_for_a_background_text_first() -> None:
    assert bare_prompt("Who?", BACKGROUND_TEMPLATE) == (
        "Generate a background document from Wikipedia to answer the given question. Who?"
    )
    assert background_passage_id("m", "Q1-P36") == "genread:m:Q1-P36"


def test_labels_that_look_like_templates_are_left_alone() -> None:
    assert bare_prompt("Who is {question} {0} \\1?", QA) == "Q: Who is {question} {0} \\1? A:"


def test_zero_shot() -> None:
    assert build_prompt(ASKED, QA) == "Q: What is the capital of Utopia? A:"
    assert build_prompt(ASKED, LONG) == "Question: What is the capital of Utopia?\nAnswer:"
    assert build_prompt(ASKED, FORMATS["question"]) == "What is the capital of Utopia?"


def test_few_shot_with_and_without_passages() -> None:
    assert build_prompt(ASKED, QA, [SHOWN, BARE]) == (
        "Q: Who is the author of Emma? A: Jane Austen\n\nQ: Who is the father of Ann? A: Bo\n\n"
        "Q: What is the capital of Utopia? A:"
    )
    assert build_prompt(ASKED, QA, [SHOWN, BARE], PASSAGES) == (
        "Emma. A book\n\nQ: Who is the author of Emma? A: Jane Austen\n\n"
        "Q: Who is the father of Ann? A: Bo\n\n"
        "Utopia is far. Its capital is\n\nQ: What is the capital of Utopia? A:"
    )
    assert build_prompt(ASKED, LONG, [SHOWN], Passages(FOUND, {})) == (
        "Question: Who is the author of Emma?\nAnswer: Jane Austen\n\n"
        "Utopia is far. Its capital is\n\nQuestion: What is the capital of Utopia?\nAnswer:"
    )


@pytest.mark.parametrize("blank", ["", " ", "   "])
def test_a_question_with_a_blank_passage_appears_alone(blank: str) -> None:
    assert is_blank(blank)
    assert block(QA, "Why?", blank) == "Q: Why? A:"
    assert block(QA, "Why?", blank, "So") == "Q: Why? A: So"
    assert block(QA, "Why?", "x") == "x\n\nQ: Why? A:"
    assert not is_blank("\t")


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
    assert text_as_read(text, "wikipedia", METHODS["dense"]) == expected
    assert all(
        text_as_read(text, "wikipedia", METHODS[name]) == text for name in ("bm25", "oracle", "genread")
    )


@pytest.mark.parametrize("method", ["bm25", "dense", "oracle"])
def test_verbalised_passages_stay_whole(method: str) -> None:
    text = "Ada's occupation is writer. Ada was born in Rome."
    assert text_as_read(text, VERBALISED, METHODS[method]) == text


@given(st.text(alphabet="a. ", max_size=30))
def test_the_cut_by_the_last_separator(text: str) -> None:
    kept = ". ".join(text.split(". ")[:-1]) + "."
    assert text_as_read(text, "sandbox", METHODS["dense"]) == (kept if kept.strip(" ") != "." else text)


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=20))
def test_prompt_hash_tells_texts_apart(left: str, right: str) -> None:
    assert (prompt_hash(left) == prompt_hash(right)) == (left == right)


def test_prompt_hash_is_sha256_of_utf8() -> None:
    assert prompt_hash("é\x00\U0001f9ed") == hashlib.sha256("é\x00\U0001f9ed".encode()).hexdigest()
