"""Wikitext as plain text by sections (mwparserfromhell).

Templates, tables, references, files, categories, galleries, formulas, comments and magic words are left out. Links and
external links leave their words. mwparserfromhell reads markup that is nested too deeply, or never closed, as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    code = mwparserfromhell.parse(wikitext.replace("\0", ""), skip_style_tags=True)  # NUL would end the text
    for node in code.nodes:
        if isinstance(node, Heading):
            titles = {level: title for level, title in titles.items() if level < node.level}
            titles[node.level] = " ".join(_text_of(node.title, hidden).split())
            found.append((": ".join(filter(None, titles.values())) or None, []))
        else:
            _write(node, found[-1][1], hidden)
    sections = ((title, _without_markup("".join(pieces))) for title, pieces in found)
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
        pieces.append(f"\n{_text_of(node.title, hidden)}\n")


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


def _text_of(code: Any, hidden: frozenset[str]) -> str:
    pieces: list[str] = []
    _write_all(code, pieces, hidden)
    return _without_markup("".join(pieces))


def _without_markup(text: str) -> str:
    """The text without signs of style, and without the brackets that templates leave behind."""
    return _HOLLOW_BRACKETS.sub("", _STYLE.sub("", text)).strip()
