"""Wikis: dumps read back, damaged dumps, redirects as MediaWiki reads them, and wikitext as text by sections."""

from __future__ import annotations

import bz2
import gzip
import random
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.generated_wiki import page_lines, write_dump
from longtail.errors import SourceError
from longtail.imports.format import CollectedText
from longtail.imports.formats.collections import wikipedia_xml
from longtail.imports.wiki import (
    DISAMBIGUATION,
    REDIRECT,
    ExcludedPage,
    Section,
    is_disambiguation,
    is_disambiguation_by,
    is_redirect,
    redirect_target,
    sections_of,
    sections_or_reason,
)
from longtail.parsing.line_files import RejectedRows
from longtail.sandbox.world import World

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de"><siteinfo>
<base>https://de.wikipedia.org/wiki/Wikipedia:Hauptseite</base>
<namespaces><namespace key="0" /><namespace key="6">Datei</namespace></namespaces></siteinfo>
"""
END = "</mediawiki>"


def page(title: str, *texts: str, namespace: int = 0, more: str = "") -> str:
    revisions = "".join(
        f"<revision><id>{number}</id><timestamp>2026-0{number}-01T00:00:00Z</timestamp><model>wikitext</model>"
        f'<text xml:space="preserve">{escape(text)}</text></revision>\n'
        for number, text in enumerate(texts, 1)
    )
    return f"<page>\n<title>{title}</title>\n<ns>{namespace}</ns>\n<id>1</id>{more}\n{revisions}</page>\n"


@pytest.fixture
def pages() -> list[ExcludedPage]:
    """The redirects and disambiguation pages of the dump that was read last."""
    return []


@pytest.fixture
def read(
    tmp_path: Path, pages: list[ExcludedPage]
) -> Callable[..., tuple[list[CollectedText], RejectedRows]]:
    def read_file(content: bytes | str) -> tuple[list[CollectedText], RejectedRows]:
        path, rejected = tmp_path / "dump.xml", RejectedRows("dump.xml", keep=pages.append)
        pages.clear()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(wikipedia_xml.read_articles(path, rejected)), rejected

    return read_file


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_the_sandbox_s_articles_are_read_back(tmp_path: Path, suffix: str) -> None:
    world, rejected = World(seed=4, facts_per_relation=30), RejectedRows("x")
    path = write_dump(page_lines(world), tmp_path / f"dump.xml{suffix}")
    found = list(wikipedia_xml.read_articles(path, rejected))
    assert [(one.title, one.text) for one in found] == [(one.title, one.text) for _, one in world.articles()]
    assert rejected.rows == []
    assert rejected.left_out["redirects"] > 100
    assert rejected.left_out["pages of other namespaces"] > 0


def test_what_is_no_article_is_left_out_listed_and_counted(read, pages: list[ExcludedPage]) -> None:
    found, rejected = read(
        HEAD
        + page("Łódź", "old", "'''Łódź''' [[Datei:x.png|y]]is.\n== Geschichte ==\nIt grew &amp; grew.")
        + page("Lodz", "#REDIRECT [[Łódź]]", more='<redirect title="Łódź" />')
        + page("Old", "  #redirect [[łódź#Old_town|x]]")
        + page("Mercury", "{{Disambiguation|a}} may be")
        + page("Mars", "Mars {{dab}}")
        + page("Ann (disambiguation)", "Ann may be")
        + page("Cited", "A claim.{{disambiguation needed|x}} {{other uses|Cited (disambiguation)}}")
        + page("Talk:Łódź", "a", namespace=1)
        + END
    )
    assert [(one.row, one.title, one.section, one.text) for one in found] == [
        (1, "Łódź", None, "Łódź is."),
        (1, "Łódź", "Geschichte", "It grew & grew."),
        (7, "Cited", None, "A claim."),
    ]
    assert (found[0].id, found[0].revision, found[0].date) == ("Łódź", "2", "2026-02-01T00:00:00Z")
    assert found[0].url == "https://de.wikipedia.org/wiki/%C5%81%C3%B3d%C5%BA"
    assert rejected.left_out == {"redirects": 2, "disambiguation pages": 3, "pages of other namespaces": 1}
    assert rejected.rows == []
    assert pages == [
        ExcludedPage(2, "Lodz", REDIRECT, "Łódź"),
        ExcludedPage(3, "Old", REDIRECT, "Łódź", "Old town"),
        ExcludedPage(4, "Mercury", DISAMBIGUATION),
        ExcludedPage(5, "Mars", DISAMBIGUATION),
        ExcludedPage(6, "Ann (disambiguation)", DISAMBIGUATION),
    ]


def test_pages_that_cannot_be_used_are_put_aside_with_title_and_reason(read) -> None:
    found, rejected = read(
        HEAD
        + page("Empty", "")
        + page("No revision")
        + page("Only a table", "{|\n|a\n|}")
        + page("Braces", "{{a|" * 20_000)
        + page("Whole", "Emoji 👩‍🚀, a NUL \0\x01 and {{an {{open}} template")
        + END
    )
    assert [(one.row, one.text) for one in found] == [(5, "Emoji 👩‍🚀, a NUL  and {{an  template")]
    assert [(row.row_key, row.reason) for row in rejected.rows] == [
        ("dump.xml row 1", "page 'Empty': text: is empty"),
        ("dump.xml row 2", "page 'No revision': text: is empty"),
        ("dump.xml row 3", "page 'Only a table': text: is empty"),
        ("dump.xml row 4", "page 'Braces': markup is opened 40,000 times more often than it is closed"),
    ]


def test_a_damaged_page_is_put_aside_and_the_others_stay(read, pages: list[ExcludedPage]) -> None:
    damaged = [
        page("A", "an X").replace("X", "<b>"),
        page("B", "a").replace("<ns>0", "<ns>zero"),
        page("C", "a").replace("<title>C</title>", ""),
        page("D", "an X").replace("X", "&#1;"),
    ]
    old = page("Old", "#REDIRECT [[Whole]]")
    talk = page("Talk:Whole", "a", namespace=1)
    content = [
        HEAD,
        page("Whole", "First."),
        *damaged[:2],
        old,
        talk,
        *damaged[2:],
        page("Last", "Last."),
        END,
    ]
    found, rejected = read("".join(content))
    assert [(one.row, one.text) for one in found] == [(1, "First."), (8, "Last.")]
    assert pages == [ExcludedPage(4, "Old", REDIRECT, "Whole")]
    assert rejected.left_out == {"redirects": 1, "pages of other namespaces": 1}
    assert [(row.row_key, row.reason.partition("Error")[0]) for row in rejected.rows] == [
        ("dump.xml row 2", "page 'A': is damaged: Parse"),
        ("dump.xml row 3", "page 'B': is damaged: Value"),
        ("dump.xml row 6", "page '': is damaged: Attribute"),
        ("dump.xml row 7", "page 'D': is damaged: Parse"),
    ]


def test_a_page_of_ten_megabytes_is_read(read) -> None:
    found, rejected = read(HEAD + page("Long", "Some words of text. " * 500_000) + page("Next", "b") + END)
    assert [len(one.text) for one in found] == [9_999_999, 1]
    assert rejected.rows == []


def test_several_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dump.xml"
    pages = (page(f"Title {number}", f"Article {number}. " * 5_000) for number in range(100))
    path.write_text(HEAD + "".join(pages) + END, encoding="utf-8")
    monkeypatch.setattr(wikipedia_xml, "_PART_BYTES", 1 << 20)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        found.append(list(wikipedia_xml.read_articles(path, RejectedRows("x"))))
    assert active_children() == []  # none is left behind
    assert found[0] == found[1]
    assert [one.row for one in found[0]] == list(range(1, 101))


PAGES = [page(f"Title {number}", f"Article {number}.") for number in range(3)]


@pytest.mark.parametrize(
    "cut",
    [
        HEAD + PAGES[0] + PAGES[1] + PAGES[2],  # without its end
        HEAD + PAGES[0] + PAGES[1][:-3],  # in mid-tag
        HEAD + PAGES[0] + PAGES[1] + "<page>\n<title>",
        HEAD + PAGES[0] + PAGES[1] + "<page>\n",
    ],
)
def test_a_dump_that_breaks_off_is_refused(read, cut: str) -> None:
    size = len(cut.encode())
    with pytest.raises(
        SourceError, match=rf"dump\.xml: breaks off at byte {size} of {size}, .*fetch it again"
    ):
        read(cut)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_a_compressed_dump_that_breaks_off_names_its_byte(read, compress: Callable[[bytes], bytes]) -> None:
    draw = random.Random(1)
    texts = [f"{draw.getrandbits(4_000):x}" for _ in range(3_600)]
    pages = [page("Title", text).encode() for text in texts]
    parts = (b"".join(pages[start : start + 200]) for start in range(0, 3_600, 200))
    streams = [HEAD.encode(), *parts, END.encode()]
    whole = b"".join(map(compress, streams))
    cut = whole[: len(whole) * 3 // 4]
    with pytest.raises(SourceError, match=rf"breaks off at byte [\d,]+ of {len(cut):,}.*fetch it again"):
        read(cut)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<!DOCTYPE html>\n<html><body>404</body></html>\n", r"holds no page of a wiki; it begins with .*<!DOCTYPE"),
        (f"<page>\n</page>\n{END}", "holds no page of a wiki"),
        (f"<mediawiki>{PAGES[0]}{END}", r"is no XML dump of a wiki \(MalformedXML"),
        (f"{HEAD}<b>{PAGES[0]}{END}", r"is no XML dump of a wiki \(MalformedXML: Unexpected tag"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_dump_is_refused(read, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=rf"dump\.xml: .*{message}"):
        read(content)


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
        ("\n #Redirect: [[łódź#Old_town|the city]] {{R from move}}", ("Łódź", "Old town")),
        ("#REDIRECT [[ Ada__Quill ]]\n\n[[Category:Redirects]]", ("Ada Quill", None)),
        ("#REDIRECT [[:Category:Weavers]]", ("Category:Weavers", None)),
        ("#REDIRECT: [[2001: A Space Odyssey]]", ("2001: A Space Odyssey", None)),
        ("#REDIRECT [[AT&amp;T]]", ("AT&T", None)),
        ("#REDIRECT [[%C5%81%C3%B3d%C5%BA#A%20B]]", ("Łódź", "A B")),
        ("#REDIRECT [[ßx]]", ("ßx", None)),  # its capital has two letters: MediaWiki leaves it
        ("#WEITERLEITUNG [[Łódź]]", ("Łódź", None)),
        ("#REDIRECT [[#Section]]", (None, None)),
        ("#REDIRECT [[Łó\ndź]]", (None, None)),
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


@pytest.mark.parametrize(
    ("title", "templates", "is_one"),
    [
        ("Mercury", ["Template:Disambiguation", "Module:Message box"], True),
        ("Smith", ["Template:Hndis"], True),
        ("Ann (disambiguation)", [], True),
        ("Łódź", ["Template:Disambiguation needed", "Module:Disambiguation", "Template:Infobox"], False),
    ],
)
def test_templates_say_what_lists_meanings(title: str, templates: list[str], is_one: bool) -> None:
    assert is_disambiguation_by(title, templates) == is_one
    wikitext = "".join(f"{{{{{name.partition(':')[2]}}}}}" for name in templates if "Module" not in name)
    assert is_disambiguation(title, wikitext) == is_one


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


@pytest.mark.parametrize("broken", ["{{a|", "[http://x.org ", "<div>", "[["])
def test_a_page_that_would_take_hours_is_refused_at_once(broken: str) -> None:
    reason = sections_or_reason(broken * 100_000, HIDDEN)
    assert str(reason).startswith("markup is opened")
