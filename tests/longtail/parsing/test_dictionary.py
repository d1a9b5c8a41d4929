"""Names in a text: examples by hand, and a comparison with a search that tries every position and every name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.parsing.dictionary import FUNCTION_WORDS, SHORTEST_NAME, Dictionary

NAMES = {
    "New York": {"Q60"},
    "New York Times": {"Q9684"},
    "York": {"Q42462"},
    "The Who": {"Q93346"},
    "It": {"Q1"},
    "Ann": {"Q2", "Q3"},
    "Straße": {"Q4"},
    "Æon Flux!": {"Q5"},
}


def spots(text: str, names: dict[str, set[str]] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(m.spot, m.ids) for m in Dictionary(NAMES if names is None else names).mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("who owns the new york times", [("new york times", ("Q9684",))]),
        ("new york timeshare in NEW YORK", [("new york", ("Q60",)), ("NEW YORK", ("Q60",))]),
        ("yorkshire and new-york", [("york", ("Q42462",))]),
        ("the who, is it them", []),
        ("ann's house", [("ann", ("Q2", "Q3"))]),
        ("annual", []),
        ("in der STRASSE 4", [("STRASSE", ("Q4",))]),
        ("was æon flux! good", [("æon flux!", ("Q5",))]),
        ("æon flux!!", [("æon flux!", ("Q5",))]),
        ("", []),
    ],
)
def test_the_longest_name_on_word_boundaries(text: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert spots(text) == expected


def test_offsets_refer_to_the_original_text() -> None:
    (mention,) = Dictionary({"Maße": {"Q1"}}).mentions("ẞ MASSE ẞ")
    assert (mention.start, mention.end, mention.spot) == (2, 7, "MASSE")


def test_without_names_there_are_no_mentions() -> None:
    assert Dictionary({}).mentions("anything") == []
    assert len(Dictionary({"It": {"Q1"}, "who": {"Q2"}})) == 0


WORDS = st.sampled_from(["aa", "bbb", "a", "bb cc", "cc", "ccc aa", "the", "-", "bbb-"])


@settings(deadline=None)
@given(
    names=st.lists(WORDS, max_size=6), text=st.lists(WORDS, max_size=8), glue=st.sampled_from([" ", "", ","])
)
def test_it_equals_a_search_at_every_position(names: list[str], text: list[str], glue: str) -> None:
    known = {name: {name} for name in names}
    assert [spot for spot, _ in spots(glue.join(text), known)] == by_trying(set(names), glue.join(text))


def by_trying(names: set[str], text: str) -> list[str]:
    """From left to right, the longest whole name at each position; the search continues after it."""
    found, place = [], 0
    while place < len(text):
        longest = ""
        for name in names:
            end = place + len(name)
            is_name = len(name) >= SHORTEST_NAME and not set(name.split()) <= FUNCTION_WORDS
            inside = (place > 0 and text[place - 1].isalnum() and name[0].isalnum()) or (
                end < len(text) and text[end].isalnum() and name[-1].isalnum()
            )
            if is_name and text.startswith(name, place) and not inside and len(name) > len(longest):
                longest = name
        if longest:
            found.append(longest)
        place += len(longest) or 1
    return found
