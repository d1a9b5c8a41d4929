"""Articles as Wikimedia dumps them from its search index (CirrusSearch): two JSON lines an article.

The first line says which page follows (`{"index": {"_id": "12", …}}`), the second one is the page: title, namespace,
text without markup, the item of Wikidata that it is about, and much else. Pages outside namespace 0 (articles) are put
aside. The redirects of a page are listed with it; a disambiguation page is listed, and its text is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.imports.format import CollectedText, CollectionFormat
from longtail.imports.records import optional_text, read_json_lines, require_keys
from longtail.imports.wiki import DISAMBIGUATION, REDIRECT, ExcludedPage, is_disambiguation_by
from longtail.parsing.line_files import RejectedRows


def read_articles(path: Path, rejected: RejectedRows) -> Iterator[CollectedText]:
    """The articles in the file's order. Errors: `SourceError`, as `read_json_lines`."""
    announced: tuple[int, Any] | None = None
    for number, loaded in read_json_lines(path, rejected, is_whole=True):
        if loaded.keys() == {"index"}:
            if announced:
                rejected.put(announced[0], "names a page, and the next line is no page", announced[1])
            announced = number, loaded
            continue
        is_announced, announced = announced is not None and announced[0] == number - 1, None
        reason = _fault(loaded, is_announced=is_announced)
        if reason:
            rejected.put(number, reason, loaded)
            continue
        title, entity_id = loaded["title"], optional_text(loaded, "wikibase_item", rejected)
        for redirect in _redirects(loaded):
            rejected.leave_out(ExcludedPage(number, redirect, REDIRECT, title))
        if is_disambiguation_by(title, _texts(loaded.get("template"))):
            rejected.leave_out(ExcludedPage(number, title, DISAMBIGUATION))
        else:
            yield CollectedText(number, title, title, loaded["text"], entity_id=entity_id)
    if announced:
        rejected.put(announced[0], "names a page, and the file ends; it may be cut off", announced[1])


def _fault(page: dict[str, Any], *, is_announced: bool) -> str | None:
    """Why a page cannot be used; None if it can."""
    if not is_announced:
        return "a page without the line before it that names it"
    if page.get("namespace", 0) != 0:
        return f"namespace {page['namespace']!r}: an article was expected (namespace 0)"
    missing = [key for key in ("title", "text") if not isinstance(page.get(key), str)]
    return f"key {missing[0]}: a text was expected" if missing else None


def _redirects(page: dict[str, Any]) -> list[str]:
    """The titles in namespace 0 that lead to the page."""
    redirects = page.get("redirect")
    listed = (
        [redirect for redirect in redirects if isinstance(redirect, dict)]
        if isinstance(redirects, list)
        else []
    )
    return _texts([redirect.get("title") for redirect in listed if redirect.get("namespace", 0) == 0])


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


FORMAT = CollectionFormat(read=read_articles, gives_articles=True, check=require_keys("title", "text"))
