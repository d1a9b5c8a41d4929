"""Articles in a part of a wiki's XML dump (mwxml): which pages are none, and wikitext as plain text by sections.

A process of its own may read a part, so this module imports little. Redirects and disambiguation pages hold no passages.
Of wikitext (mwparserfromhell), templates, tables, references, files, categories, galleries, formulas, comments and magic
words are left out. Links and external links leave their words. Markup that is nested too deeply, or never closed, is read
as text.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any
from urllib.parse import quote, unquote
from xml.etree.ElementTree import ParseError

REDIRECT, DISAMBIGUATION = "redirect", "disambiguation"
_PLURALS = {REDIRECT: "redirects", DISAMBIGUATION: "disambiguation pages"}


@dataclass(frozen=True)
class ExcludedPage:
    """A page without passages. `row`: its place in its file, as of a text; `kind`: `REDIRECT` or `DISAMBIGUATION`.

    `target`, `section`: the title that a redirect leads to, and a section of that page. None: it names none.
    """

    row: int
    title: str
    kind: str
    target: str | None = None
    section: str | None = None

    @property
    def plural(self) -> str:
        """What such pages are called in counts."""
        return _PLURALS[self.kind]


_IS_REDIRECT = re.compile(r"\s*#redirect\b", re.IGNORECASE)
_LINK = re.compile(r"\s*#\w+\s*:?\s*\[\[(.*?)(?:\|.*?)?\]\]")
_NAMES = (
    r"[\w\s,()-]*\bdisambig(?:uation)?\b(?!\s+needed)[\w\s,()-]*|dab|hndis|geodis|schooldis|numberdis|roaddis|mathdab"
    r"|hospitaldis|callsigndis"
)
_TEMPLATE = re.compile(_NAMES, re.IGNORECASE)
_IN_WIKITEXT = re.compile(rf"__DISAMBIG__|\{{\{{\s*(?:{_NAMES})\s*[|}}]", re.IGNORECASE)
_IN_TITLE = " (disambiguation)"


def is_redirect(wikitext: str) -> bool:
    """Whether the text begins with #REDIRECT, in any case. A dump also says so of pages in the wiki's own language."""
    return _IS_REDIRECT.match(wikitext) is not None


def redirect_target(
    wikitext: str, declared: str | None = None, *, first_letter: bool = True
) -> tuple[str | None, str | None]:
    """(title, section) that a redirect leads to, as MediaWiki reads its first link (`WikitextContentHandler`).

    `declared`: the page that the dump names; the section is in the text alone. `first_letter`: the wiki's titles begin
    with a capital. None: the redirect names no page, or no section.
    """
    link = _LINK.match(wikitext)
    title, section = _parts(link[1]) if link else (None, None)
    if title and first_letter and len(title[0].upper()) == 1:
        title = title[0].upper() + title[1:]
    if declared:
        title, declared_section = _parts(declared)
        section = section or declared_section
    return title, section if title else None


def is_disambiguation(title: str, wikitext: str) -> bool:
    """Whether the title, a template or a magic word says that a page lists meanings of its title."""
    return title.endswith(_IN_TITLE) or _IN_WIKITEXT.search(wikitext) is not None


def is_disambiguation_by(title: str, templates: list[str]) -> bool:
    """As `is_disambiguation`, by the names of the page's templates (`Template:Hndis`)."""
    names = (name.partition(":")[2] for name in templates if not name.startswith("Module:"))
    return title.endswith(_IN_TITLE) or any(_TEMPLATE.fullmatch(name) for name in names)


def _parts(link: str) -> tuple[str | None, str | None]:
    """Title and section of a link's target, with spaces for underscores."""
    text = unescape(link)
    text = unquote(text) if "%" in text else text
    title, _, section = (" ".join(part.replace("_", " ").split()) for part in text.partition("#"))
    return title.removeprefix(":").strip() or None, section or None


_HIDDEN_TAGS = frozenset({
    "categorytree", "ce", "chem", "gallery", "graph", "hiero", "imagemap", "indicator", "inputbox", "mapframe", "maplink",
    "math", "ref", "references", "score", "section", "source", "style", "syntaxhighlight", "table", "templatedata",
    "templatestyles", "timeline",
})  # fmt: skip
_MOST_OPEN = 10_000  # mwparserfromhell takes seconds for so many, and four times as long for twice as many
_STYLE = re.compile(r"''+|__[A-Z]{3,}__")
_HOLLOW_BRACKETS = re.compile(r"[ \t]*\([\s,;:/]*\)|[ \t]*\[[\s,;:/]*\]")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z-]+)?:\S")


@dataclass(frozen=True)
class Section:
    """The text below one heading. `title`: the headings above it, joined by colons; None before the first heading."""

    title: str | None
    text: str


def sections_of(wikitext: str, hidden: frozenset[str] = frozenset()) -> list[Section]:
    """The sections with text, in their order. `hidden`: namespaces, in lower case, whose links show no text.

    Errors: whatever mwparserfromhell raises.
    """
    import mwparserfromhell
    from mwparserfromhell.nodes import Heading

    titles: dict[int, str] = {}
    pieces_by_title: list[tuple[str | None, list[str]]] = [(None, [])]
    code = mwparserfromhell.parse(wikitext.replace("\0", ""), skip_style_tags=True)  # NUL would end the text
    for node in code.nodes:
        if isinstance(node, Heading):
            titles = {level: title for level, title in titles.items() if level < node.level}
            titles[node.level] = " ".join(_plain_text(node.title, hidden).split())
            pieces_by_title.append((": ".join(filter(None, titles.values())) or None, []))
        else:
            _write(node, pieces_by_title[-1][1], hidden)
    sections = ((title, _strip_markup("".join(pieces))) for title, pieces in pieces_by_title)
    return [Section(title, text) for title, text in sections if text]


def sections_or_reason(text: str, hidden: frozenset[str]) -> list[Section] | str:
    """The sections with text, or the reason why there are none."""
    open_signs = max(
        text.count("{") - text.count("}"),
        text.count("[") - text.count("]"),
        text.count("<") - 2 * text.count("</") - text.count("/>"),
    )
    if open_signs > _MOST_OPEN:
        return f"markup is opened {open_signs:,} times more often than it is closed"
    try:
        return sections_of(text, hidden) or "text: is empty"
    except Exception as error:  # one page must not end a run over millions
        return f"mwparserfromhell: {type(error).__name__}: {error}"


def _write(node: Any, pieces: list[str], hidden: frozenset[str]) -> None:
    """Add the text of one node; templates, arguments and comments have none."""
    kind = type(node).__name__
    if kind == "Text":
        pieces.append(node.value)
    elif kind == "Wikilink":
        _write_link(node, pieces, hidden)
    elif kind == "Tag":
        tag = str(node.tag).strip().lower()
        if tag == "br":
            pieces.append("\n")
        elif tag not in _HIDDEN_TAGS and node.contents is not None:
            _write_all(node.contents, pieces, hidden)
    elif kind == "ExternalLink":
        if node.title is not None:
            _write_all(node.title, pieces, hidden)
        elif not node.brackets:
            pieces.append(str(node.url))
    elif kind == "HTMLEntity":
        pieces.append(node.normalize())
    elif kind == "Heading":  # within a tag
        pieces.append(f"\n{_plain_text(node.title, hidden)}\n")


def _write_link(node: Any, pieces: list[str], hidden: frozenset[str]) -> None:
    title = str(node.title).strip()
    space = title.partition(":")[0].strip().lower()
    if space in hidden and ":" in title:
        return
    if node.text is not None:
        _write_all(node.text, pieces, hidden)
    elif not _LANGUAGE.match(title):
        pieces.append(title.removeprefix(":"))


def _write_all(code: Any, pieces: list[str], hidden: frozenset[str]) -> None:
    for node in code.nodes:
        _write(node, pieces, hidden)


def _plain_text(code: Any, hidden: frozenset[str]) -> str:
    pieces: list[str] = []
    _write_all(code, pieces, hidden)
    return _strip_markup("".join(pieces))


def _strip_markup(text: str) -> str:
    """The text without signs of style, and without the brackets that templates leave behind."""
    return _HOLLOW_BRACKETS.sub("", _STYLE.sub("", text)).strip()


END = b"</mediawiki>"
_PAGE_END = b"</page>"
_TITLE = re.compile(rb"<title>([^<]{1,255})</title>")
_FORBIDDEN_IN_XML = bytes(byte for byte in range(32) if byte not in b"\t\n\r")
_WITHOUT_TEXT = (-2, 6, 14)  # media, files, categories: a link to such a page shows no words
_OTHER = "pages of other namespaces"
_THEIR_NAMES = frozenset({"media", "file", "image", "category"})


@dataclass(frozen=True)
class Article:
    """One article: its page's place in its part, from 0; its sections, or why it has none."""

    place: int
    title: str
    sections: list[Section] | str
    revision: str | None
    date: str | None
    url: str | None


@dataclass
class Part:
    """What a part of a dump holds. The `row` of one of `pages` is its place in its part, from 0, as of an article.

    `left_out` counts the pages outside namespace 0.
    """

    n_pages: int = 0
    articles: list[Article] = field(default_factory=list)
    pages: list[ExcludedPage] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, other: Part) -> None:
        """Take over the pages that follow."""
        self.articles += [replace(page, place=self.n_pages + page.place) for page in other.articles]
        self.pages += [replace(page, row=self.n_pages + page.row) for page in other.pages]
        self.left_out.update(other.left_out)
        self.n_pages += other.n_pages


def read_part(head: bytes, pages: bytes) -> Part:
    """The articles among whole pages; one that cannot be read has the reason in place of its sections.

    `head`: what stands before the dump's first page. Errors: `ValueError` where that is not what MediaWiki exports.
    """
    try:
        return _read(head, pages)
    except ValueError:
        part = _read(head, b"")
    for page in pages.split(_PAGE_END)[:-1]:
        part.add(_read_one(head, page + _PAGE_END))
    return part


def _read_one(head: bytes, page: bytes) -> Part:
    """One page that may be damaged."""
    try:
        return _read(head, page)
    except ValueError as error:
        match = _TITLE.search(page)
        title = match[1].decode("utf-8", "replace") if match else ""
        return Part(1, [Article(0, title, f"is damaged: {error}", revision=None, date=None, url=None)])


def _read(head: bytes, pages: bytes) -> Part:
    """The articles among whole pages. Errors: `ValueError` where this is not XML, or not what MediaWiki exports."""
    import mwxml
    from mwxml.errors import MalformedXML

    part = Part()
    try:
        data = (head + pages + END).translate(None, _FORBIDDEN_IN_XML)
        dump = mwxml.Dump.from_file(io.BytesIO(data))
        hidden, base = _hidden(dump.site_info), (dump.site_info.base or "").rpartition("/")[0]
        first_letter = dump.site_info.case != "case-sensitive"
        for page in dump.pages:
            revision = None
            for revision in page:  # noqa: B007 the last one counts
                pass
            text = (revision and revision.slots["main"].text) or ""
            if page.namespace != 0:
                part.left_out[_OTHER] += 1
            elif left_out := _exclude(page, text, part.n_pages, first_letter=first_letter):
                part.pages.append(left_out)
            else:
                part.articles.append(
                    Article(
                        place=part.n_pages,
                        title=page.title,
                        sections=sections_or_reason(text, hidden),
                        revision=str(revision.id) if revision else None,
                        date=str(revision.timestamp) if revision else None,
                        url=f"{base}/{quote(page.title.replace(' ', '_'))}" if base else None,
                    )
                )
            part.n_pages += 1
    except (
        ParseError,
        MalformedXML,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return part


def _exclude(page: Any, text: str, place: int, *, first_letter: bool) -> ExcludedPage | None:
    """The page, if it is no article."""
    title = page.title or ""
    if page.redirect is not None or is_redirect(text):
        target, section = redirect_target(text, page.redirect, first_letter=first_letter)
        return ExcludedPage(place, title, REDIRECT, target, section)
    return ExcludedPage(place, title, DISAMBIGUATION) if is_disambiguation(title, text) else None


def _hidden(site_info: Any) -> frozenset[str]:
    """Names of the namespaces whose links show no text, in English and in the wiki's language; in lower case."""
    local_names = {space.name.lower() for space in site_info.namespaces or () if space.id in _WITHOUT_TEXT}
    return _THEIR_NAMES | local_names
