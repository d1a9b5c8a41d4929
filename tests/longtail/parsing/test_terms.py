"""Cleaning of labels before storage."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.parsing.terms import LONGEST_LABEL, clean_term

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=400)


@given(ANY_TEXT)
def test_a_cleaned_term_can_be_stored_and_printed(raw: str) -> None:
    term = clean_term(raw)
    assert len(term.text) <= LONGEST_LABEL
    assert term.text == term.text.strip()
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in term.text)
    term.text.encode("utf-8")


@given(ANY_TEXT)
def test_cleaning_twice_equals_cleaning_once(raw: str) -> None:
    once = clean_term(raw).text
    assert clean_term(once).text == once
    assert clean_term(once).notes == ()


@given(ANY_TEXT)
def test_a_change_is_noted_and_no_change_is_not(raw: str) -> None:
    term = clean_term(raw)
    assert (term.text == raw.strip()) == (term.notes == ())


@pytest.mark.parametrize(
    "label",
    [
        "Jürgen Ångström",
        "\u200fנועה כהן\u200e",
        "👩🏽‍🚀 Café",
        "Ярослав Мудрый",
        "جواهر لال نهرو",
        "नेहरू",
        "e\u0301clair",
        "a\u00a0b",
        "x" * LONGEST_LABEL,
    ],
)
def test_real_writing_survives(label: str) -> None:
    assert clean_term(label).text == label
    assert clean_term(label).notes == ()


def test_control_characters_are_removed_and_noted() -> None:
    term = clean_term("Ada\x00 Love\x07lace\n")
    assert term.text == "Ada Lovelace"
    assert term.notes == ("control characters removed",)


def test_line_breaks_inside_become_spaces() -> None:
    assert clean_term("one\ntwo\u2028three").text == "one two three"


def test_ten_kilobytes_are_cut_and_noted() -> None:
    term = clean_term("ü" * 10_000)
    assert term.text == "ü" * LONGEST_LABEL
    assert term.notes == ("cut from 10,000 to 250 characters",)


def test_a_cut_does_not_split_a_combined_character() -> None:
    family = "👩\u200d👩\u200d👧"
    for padding in range(LONGEST_LABEL - 8, LONGEST_LABEL):
        text = clean_term("x" * padding + family * 9).text
        assert not text.endswith("\u200d")
        assert set(text) <= set("x" + family)
    accented = clean_term("x" * (LONGEST_LABEL - 1) + "e\u0301tude").text
    assert accented == "x" * (LONGEST_LABEL - 1)
