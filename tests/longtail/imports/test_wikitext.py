"""Wikitext as text: what is left out, what is kept, sections, and markup that is broken."""

from __future__ import annotations

import pytest

from longtail.imports.wiki import Section, sections_of, sections_or_reason

HIDDEN = frozenset({"file", "category", "datei"})


def text_of(wikitext: str) -> str:
    return "|".join(" ".join(section.text.split()) for section in sections_of(wikitext, HIDDEN))


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("{{a|{{b|{{c}}}}}} '''X''' is ''a'' [[b|c]] and [[D]]s.", "X is a c and Ds."),
        ("{| class=x\n|-\n| cell {{t}}\n|}\nAfter.", "After."),
        ("Text<ref name=a>{{cite|title=x}}</ref> more<ref name=b />.", "Text more."),
        ("[[File:x.jpg|thumb|A [[link]]]][[Datei:y.png]] Text [[Category:Z]]", "Text"),
        ("[[:Category:Z]] and [[de:Foo]]", "Category:Z and"),
        ("[[Category]]: [[2001: A Space Odyssey]]", "Category: 2001: A Space Odyssey"),
        ("<gallery>\nFile:a.jpg|x\n</gallery><math>a^2</math><!-- c -->T", "T"),
        ("[http://x.org words] http://y.org [http://z.org]", "words http://y.org"),
        ("a &amp; b&nbsp;&#8364; &lt;b&gt; &bogus; &#x1F469;", "a & b € <b> &bogus; 👩"),
        ("* a\n* b\nx<br>y __NOTOC__ <nowiki>[[z]]</nowiki>", "a b x y [[z]]"),
        ("Łódź ({{IPA|x}}; ) is", "Łódź is"),
        ("a\0b 👩‍🚀", "ab 👩‍🚀"),
        ("<div>\n== In ==\ninside</div>", "In inside"),
    ],
)
def test_markup_leaves_its_words(wikitext: str, text: str) -> None:
    assert text_of(wikitext) == text


def test_sections_have_the_titles_above_them() -> None:
    text = "Lead.\n== ''A'' {{x}} ==\none\n=== B ===\ntwo\n== Empty ==\n{{only|a template}}\n== C ==\nthree"
    assert sections_of(text) == [
        Section(None, "Lead."),
        Section("A", "one"),
        Section("A: B", "two"),
        Section("C", "three"),
    ]


@pytest.mark.parametrize("broken", ["{{", "[[", "<b>", "{|\n", "<ref>", "'''", "== ", "{{{", "<!-- ", "&#"])
def test_markup_that_is_never_closed_keeps_the_words(broken: str) -> None:
    for wikitext in (f"Before. {broken}after", f"{broken * 60}after"):
        assert "after" in text_of(wikitext)


def test_deep_nesting_is_no_fault() -> None:
    assert "inside" in text_of("<div>" * 500 + "inside" + "</div>" * 500)
    assert text_of("{{a|" * 30 + "x" + "}}" * 30 + "after") == "after"


@pytest.mark.parametrize("broken", ["{{a|", "[http://x.org ", "<div>", "[["])
def test_a_page_that_would_take_hours_is_refused_at_once(broken: str) -> None:
    reason = sections_or_reason(broken * 100_000, HIDDEN)
    assert str(reason).startswith("markup is opened")


def test_a_page_without_text_says_so() -> None:
    assert sections_or_reason("{{only|a template}}\n== Heading ==\n", HIDDEN) == "text: is empty"
