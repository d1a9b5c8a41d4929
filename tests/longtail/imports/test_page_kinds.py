"""Redirects and disambiguation pages: what a redirect's wikitext says, as MediaWiki reads it."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longtail.imports.wiki import (
    is_disambiguation,
    is_disambiguation_by,
    is_redirect,
    redirect_target,
)

# What MediaWiki forbids in titles, and what it would decode or trim.
WORDS = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="#<>[]|{}_%&:\u200e\u200f"),
    min_size=1,
    max_size=8,
)
TITLES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@pytest.mark.parametrize(
    ("wikitext", "found"),
    [
        ("#REDIRECT [[Łódź]]", ("Łódź", None)),
        ("#redirect[[Łódź]]", ("Łódź", None)),
        ("\n #Redirect: [[łódź#Old_town|the city]] {{R from move}}", ("Łódź", "Old town")),
        ("#REDIRECT [[ Ada__Quill ]]\n\n[[Category:Redirects]]", ("Ada Quill", None)),
        ("#REDIRECT [[:Category:Weavers]]", ("Category:Weavers", None)),
        ("#REDIRECT: [[2001: A Space Odyssey]]", ("2001: A Space Odyssey", None)),
        ("#REDIRECT [[AT&amp;T]]", ("AT&T", None)),
        ("#REDIRECT [[%C5%81%C3%B3d%C5%BA#A%20B]]", ("Łódź", "A B")),
        ("#REDIRECT [[👩‍🚀]]", ("👩‍🚀", None)),
        ("#REDIRECT [[ßx]]", ("ßx", None)),  # its capital has two letters: MediaWiki leaves it
        ("#WEITERLEITUNG [[Łódź]]", ("Łódź", None)),
        ("#REDIRECT [[#Section]]", (None, None)),
        ("#REDIRECT [[]]", (None, None)),
        ("#REDIRECT [[Łódź", (None, None)),
        ("#REDIRECT [[Łó\ndź]]", (None, None)),
        ("#REDIRECT Łódź", (None, None)),
        ("#REDIRECT see [[Łódź]]", (None, None)),
    ],
)
def test_the_first_link_is_the_target(wikitext: str, found: tuple[str | None, str | None]) -> None:
    assert redirect_target(wikitext) == found


def test_what_the_dump_declares_goes_before_the_text() -> None:
    assert redirect_target("#REDIRECT [[lodz#Old town]]", "Łódź") == ("Łódź", "Old town")
    assert redirect_target("#REDIRECT [[broken", "Łódź#Old town") == ("Łódź", "Old town")
    assert redirect_target("#REDIRECT [[łódź]]", first_letter=False) == ("łódź", None)


@settings(max_examples=100, deadline=None)
@given(
    title=TITLES,
    section=st.none() | TITLES,
    label=st.none() | TITLES,
    begin=st.sampled_from(["#REDIRECT ", "#redirect", " #ReDirect:  ", "#REDIRECT\t"]),
    behind=st.text(max_size=20),
)
@example(title="a", section=None, label=None, begin="#REDIRECT ", behind="]] [[b]]")
def test_a_redirect_that_is_written_is_read_back(
    title: str, section: str | None, label: str | None, begin: str, behind: str
) -> None:
    link = title.replace(" ", "_") + (f"#{section}" if section else "") + (f"|{label}" if label else "")
    wikitext = f"{begin}[[{link}]]{behind}"
    capital = title[0].upper() if len(title[0].upper()) == 1 else title[0]
    assert is_redirect(wikitext)
    assert redirect_target(wikitext) == (capital + title[1:], section)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.sampled_from("#redirct[]|:_ %&;\n\0é"), max_size=30))
def test_any_text_is_read_without_an_error(text: str) -> None:
    title, section = redirect_target(f"#REDIRECT {text}")
    assert title is None or title == title.strip() != ""
    assert section is None or title


@pytest.mark.parametrize(
    ("title", "templates", "is_one"),
    [
        ("Mercury", ["Template:Disambiguation", "Module:Message box"], True),
        ("Smith", ["Template:Hndis"], True),
        ("Ann (disambiguation)", [], True),
        ("Łódź", ["Template:Disambiguation needed", "Module:Disambiguation", "Template:Infobox"], False),
        ("Łódź", [], False),
    ],
)
def test_templates_say_what_lists_meanings(title: str, templates: list[str], is_one: bool) -> None:
    assert is_disambiguation_by(title, templates) == is_one
    wikitext = "".join(f"{{{{{name.partition(':')[2]}}}}}" for name in templates if "Module" not in name)
    assert is_disambiguation(title, wikitext) == is_one
