"""Where the first sentence of an answer ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.scoring.model_answer import SPLITTER, first_sentence, has_final_sentence, sentences

TEXTS = st.lists(
    st.sampled_from(
        [
            "J.",
            "R. R.",
            "St.",
            "U.S.",
            "Paris",
            "He",
            "was",
            ".",
            "!",
            "?",
            "…",
            '"',
            ")",
            " ",
            "é",
            "1.",
            "12",
            "Inc.",
        ]
    ),
    max_size=12,
).map(" ".join)
NAMES = st.sampled_from(
    ["J. R. R. Tolkien", "St. Louis", "the U.S. Senate", "Dr. No", "Mt. Etna", "C.S. Lewis", "J.-P. Sartre", "Paris",
     "George W. Bush", "Ph.D. Smith", "Ann O. Other", "J. A. Smith", "J. I. Packer", "Martin Luther King Jr. Day",
     "Warner Bros. Pictures", "No. 5", "Lt. Col. Ada Quill", "3.14", "example.org", "Łódź", "Émile Zola"]
)  # fmt: skip


def test_the_splitter_has_a_name() -> None:
    assert SPLITTER == "longtail-1"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", ""),
        (" Paris", " Paris"),
        (" Paris. It is the capital of France.", " Paris."),
        ("Paris.", "Paris."),
        ("Is it Paris? Yes.", "Is it Paris?"),
        ("Paris! Of course.", "Paris!"),
        ("He said “Paris.” Then he left.", "He said “Paris.”"),
        ("(It is Paris.) So it is.", "(It is Paris.)"),
        ("Who knows... Nobody does.", "Who knows..."),
        ("Well… Paris", "Well…"),
        ("It is by J... Nobody does.", "It is by J..."),
        ("J. R. R. Tolkien wrote it. He was English.", "J. R. R. Tolkien wrote it."),
        ("It was J.R.R. Tolkien. He was English.", "It was J.R.R. Tolkien."),
        ("St. Louis is a city. It is large.", "St. Louis is a city."),
        ("He lives in St. Louis. He likes it.", "He lives in St. Louis."),
        ("The U.S. Senate did. Twice.", "The U.S. Senate did."),
        ("He was born in the U.S. He died in Rome.", "He was born in the U.S."),
        ("Washington, D.C. is the capital. Yes.", "Washington, D.C. is the capital."),
        ("It was Malcolm X. He was born in Omaha.", "It was Malcolm X."),
        ("Sammy Davis Jr. was a singer. He", "Sammy Davis Jr. was a singer."),
        ("It was Sammy Davis Jr. He sang.", "It was Sammy Davis Jr."),
        ("It was made by Apple Inc. The company is large.", "It was made by Apple Inc."),
        ("Apple Inc. Makes it. So", "Apple Inc. Makes it."),
        ("J. A. Smith did. He", "J. A. Smith did."),
        ("Mambo No. 5 is by Lou Bega. It", "Mambo No. 5 is by Lou Bega."),
        ("Mambo No. 5b is by Lou Bega. It", "Mambo No. 5b is by Lou Bega."),
        ("He lives in the U.S. \n", "He lives in the U.S."),
        ("Who's Afraid of Virginia Woolf? is a play. It", "Who's Afraid of Virginia Woolf? is a play."),
        ("Version 2.0 of it. Next", "Version 2.0 of it."),
        ("1. Paris 2. Rome", "1. Paris 2."),
        ("1. Paris is one. 2. Rome", "1. Paris is one."),
        ("It was 1990. Then 1991.", "It was 1990."),
        ("No", "No"),
        ("No. It is not.", "No."),
        ("He studied art. He", "He studied art."),
        ("...", "..."),
        ("Paris.Rome", "Paris.Rome"),
        ("Paris.\tRome", "Paris."),
    ],
)
def test_first_sentences(text: str, first: str) -> None:
    assert first_sentence(text) == first


@pytest.mark.parametrize(
    ("text", "is_final"),
    [("Paris", False), ("Paris.", False), ("Paris. ", False), ("Paris. It", False), ("Paris. It is", True)],
)
def test_a_sentence_is_final_once_the_word_after_it_is_whole(text: str, is_final: bool) -> None:
    assert has_final_sentence(text) is is_final


@given(TEXTS | st.text(max_size=40))
def test_a_prefix_that_is_its_own_first_sentence(text: str) -> None:
    first = first_sentence(text)
    assert text.startswith(first)
    assert first_sentence(first) == first
    rest = text[len(first) :]
    assert not rest or (rest[0].isspace() and first.rstrip("\"'”’»)]")[-1] in ".!?…")


@given(TEXTS)
def test_the_sentences_of_a_text_are_its_first_one_and_those_of_the_rest(text: str) -> None:
    found, rest = [], text
    while rest:
        found.append(first_sentence(rest))
        rest = rest[len(found[-1]) :]
    assert [*sentences(text)] == found


@given(NAMES, NAMES)
def test_names_are_never_torn(name: str, other: str) -> None:
    sentence = f"It is about {name} and about {other} alike."
    assert first_sentence(f"{sentence} The {other} is another.") == sentence
    assert first_sentence(f"{name} is meant. It is {other}.") == f"{name} is meant."


@given(TEXTS, TEXTS)
def test_once_the_next_word_is_there_more_text_changes_nothing(text: str, more: str) -> None:
    first = first_sentence(text)
    if any(char.isalnum() for char in text[len(first) :]):
        assert first_sentence(f"{text} {more}") == first
