"""Which pages of a wiki are redirects or disambiguation pages, and where a redirect leads."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote

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
