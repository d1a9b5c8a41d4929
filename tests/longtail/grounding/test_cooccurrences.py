"""Passages that have a question's entity and an answer, against plain loops over hand-made and generated texts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.grounding.cooccurrences import (
    SUBJECT,
    TITLES,
    count_cooccurrences,
    count_passages,
    link_entities,
)
from longtail.questions.text_matches import Asked
from longtail.scoring.match import dpr_tokens, has_answer
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.lake_rows import fill

LOG = logging.getLogger("test")
PASSAGES = [
    ("Ada Quill", "She was born in Lodz. Ada Quill wove."),
    ("Lodz", "A city in Poland, where ADA QUILL lived."),
    ("Ada", "Quill was no weaver in Lodz."),
    ("Weaving", "Ada Quillon was born in Warsaw; Lodzians knew her."),
    ("The", "Quill, A. (Lodz)"),
]


def question(
    text: str, answers: list[str], subject: str | None = None, aliases: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {"question": text, "subject": subject, "subject_aliases": list(aliases), "gold_answers": answers}


def counted(*rows: dict[str, Any]) -> list[tuple[list[str], str | None, int]]:
    asked = list(link_entities(rows, [title for title, _ in PASSAGES]))
    counts = count_passages(asked, PASSAGES, LOG).tolist()
    return [(sorted(one.names), one.named_by, n) for one, n in zip(asked, counts, strict=True)]


def test_names_and_answers_are_found_as_whole_words_in_title_and_text() -> None:
    """A title's last word and a text's first one are no phrase; letter case and punctuation do not count."""
    where = "Where did Ada Quill live?"
    assert counted(
        question(where, ["Lodz"], "Ada Quill"),
        question(where, ["Lodz"], "Ada Quill", ("Quill, A.",)),
        question(where, ["Paris", "Poland"], "Ada Quill"),
        question(where, [], "Ada Quill"),
        question(where, ["!?", "Lodz"], "..."),
    ) == [
        (["ada quill"], SUBJECT, 2),
        (["ada quill", "quill , a ."], SUBJECT, 3),
        (["ada quill"], SUBJECT, 1),
        (["ada quill"], SUBJECT, 0),
        ([". . ."], SUBJECT, 0),
    ]


def test_a_question_without_subject_is_linked_to_the_longest_titles_in_it() -> None:
    """The words of questions are no title, and a question that names none has no count."""
    assert counted(
        question("the weaver Ada Quill of Lodz", ["Lodz"]),
        question("did Ada weave in the city", ["Lodz"]),
        question("who was the one", ["Lodz"]),
    ) == [(["ada quill"], TITLES, 2), (["ada"], TITLES, 3), ([], None, 0)]


WORD = st.sampled_from(["ab", "b", "c", "Émile", "d."])
TEXT = st.lists(WORD, min_size=1, max_size=6).map(" ".join)


@given(
    st.lists(st.tuples(st.lists(TEXT, max_size=2), st.lists(TEXT, max_size=2)), max_size=4), st.lists(TEXT)
)
def test_counts_equal_plain_loops(asked: list[tuple[list[str], list[str]]], texts: list[str]) -> None:
    own = [Asked(frozenset(map(dpr_tokens, a)), frozenset(map(dpr_tokens, b)), SUBJECT) for a, b in asked]
    found = count_passages(own, (("", text) for text in texts), LOG)
    expected = [sum(has_answer(text, a) and has_answer(text, b) for text in texts) for a, b in asked]
    assert found.tolist() == expected


@pytest.mark.parametrize("table", ["questions", "passages"])
def test_the_table_has_every_question_until_its_inputs_change(
    table: str, make_study: Callable[[str], Study], hand_text: str, log: logging.Logger
) -> None:
    study = make_study(hand_text + "grounding: {portrait: {}}\n")
    lake = Lake(study.home.lake)
    asked = [question("?", ["Lodz"], "Ada Quill"), question("Who?", ["Lodz"])]
    lake.write(
        "questions",
        [fill("questions", {"question_id": f"q{i}", **row}) for i, row in enumerate(asked)],
        fingerprint="hand",
    )
    lake.write(
        "passages",
        [fill("passages", {"title": title, "text": text}) for title, text in PASSAGES],
        fingerprint="hand",
    )
    count_cooccurrences(study, lake, log)
    rows = lake.read("entity_cooccurrences").to_pylist()
    assert [(row["question_id"], row["named_by"], row["n_cooccurrences"]) for row in rows] == [
        ("q0", SUBJECT, 2),
        ("q1", None, None),
    ]
    assert count_cooccurrences(study, lake, log).was_current
    lake.write(table, [], fingerprint="none")
    assert not count_cooccurrences(study, lake, log).was_current
