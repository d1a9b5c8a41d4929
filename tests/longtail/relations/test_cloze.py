"""Cloze patterns: what stands around the object's place, and what readers and retrievers read of it."""

from __future__ import annotations

import pytest

from longtail.relations.cloze import article_before_object, fill_subject, prefix_of, put_sentinel, search_text


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("The capital of [X] is [Y] .", "The capital of [X] is"),
        ("[X] was born in [Y].", "[X] was born in"),
        ("[X], developed by [Y]", "[X], developed by"),
        ("[X], a product of [Y],", None),
        ("[X] is an [Y]-born person.", None),
        ("[Y] is the capital of [X].", None),
        ("[X] has no object.", None),
    ],
)
def test_a_prefix_ends_before_an_object_that_ends_the_pattern(pattern: str, prefix: str | None) -> None:
    assert prefix_of(pattern) == prefix


@pytest.mark.parametrize(
    ("pattern", "article"),
    [
        ("[X] is a [Y] by profession.", "a"),
        ("[X], an [Y]-language work.", "an"),
        ("A [Y] is what [X] plays.", "a"),
        ("[X] has the idea [Y].", None),
        ("[X] is a citizen of [Y].", None),
        ("[X] met Dana [Y].", None),
    ],
)
def test_an_article_is_a_word_right_before_the_object(pattern: str, article: str | None) -> None:
    assert article_before_object(pattern) == article


def test_a_subject_that_looks_like_a_template_is_filled_in_as_it_is() -> None:
    assert fill_subject("[X] is [Y].", "{X} \\1 [subj]") == "{X} \\1 [subj] is [Y]."


@pytest.mark.parametrize(
    ("cloze", "read"),
    [
        ("Kings Domain, located in [Y].", "Kings Domain, located in<extra_id_0>."),
        ("[Y] is the capital of Chile.", "<extra_id_0> is the capital of Chile."),
        ("He is an [Y]-born person.", "He is an<extra_id_0>-born person."),
    ],
)
def test_a_sentinel_takes_the_place_of_the_object_and_of_the_space_before_it(cloze: str, read: str) -> None:
    assert put_sentinel(cloze) == read


@pytest.mark.parametrize(
    ("cloze", "searched"),
    [
        ("Ada was born in [Y].", "Ada was born in."),
        ("[Y] is the capital of Chile.", "is the capital of Chile."),
        ("Chile has [Y] as its capital.", "Chile has as its capital."),
        ("Chile, whose capital is [Y]", "Chile, whose capital is"),
        ("[Y]", ""),
        ("Who  wrote it?", "Who  wrote it?"),
    ],
)
def test_a_retriever_reads_the_words_around_the_object(cloze: str, searched: str) -> None:
    assert search_text(cloze) == searched
