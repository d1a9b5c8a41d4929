"""Titles and redirects of the sandbox's encyclopaedia, as in MediaWiki's action=query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail.sandbox.content import WorldContent
from longtail.sandbox.replies import Reply

PATH = "/en/w/api.php"
TITLES_A_CALL = 50
_MOST_REDIRECTS = 500
_USUAL_REDIRECTS = 10
_BAD_CHARACTERS = frozenset("<>[]{}#\n\t\x00")
_LONGEST_TITLE = 255


def answer(content: WorldContent, params: Mapping[str, str]) -> Reply:
    """The API's answer to `params`; its errors have status 200."""
    if params.get("action") != "query":
        return _error("badvalue", f'Unrecognized value for parameter "action": {params.get("action")}.')
    if params.get("format") != "json" or params.get("formatversion") != "2":
        return _error("badvalue", 'this server knows "format": json and "formatversion": 2 only.')
    titles = [title for title in params.get("titles", "").split("|") if title]
    if len(titles) > TITLES_A_CALL:
        return _error(
            "toomanyvalues", f'Too many values supplied for parameter "titles". The limit is {TITLES_A_CALL}.'
        )
    query = _Query(content, follows="redirects" in params)
    for title in titles:
        query.add(title)
    document: dict[str, Any] = {"query": query.document()}
    if "redirects" in params.get("prop", "").split("|"):
        try:
            document |= _add_redirects(content, document["query"]["pages"], params)
        except ValueError:
            return _error(
                "badcontinue", "Invalid continue param. You should pass the original value returned."
            )
    if "continue" not in document:
        document["batchcomplete"] = True
    return Reply.json(200, document)


def _error(code: str, info: str) -> Reply:
    reply = Reply.json(200, {"error": {"code": code, "info": info}, "servedby": "sandbox"})
    return Reply(reply.status, reply.body, reply.content_type, {"MediaWiki-API-Error": code})


class _Query:
    """The pages of a query, each once, and how its titles lead to them."""

    def __init__(self, content: WorldContent, follows: bool) -> None:
        self._content, self._follows = content, follows
        self._normalized: dict[str, str] = {}
        self._redirects: dict[str, dict[str, str]] = {}
        self._pages: dict[str, dict[str, Any]] = {}

    def add(self, raw: str) -> None:
        title = " ".join(raw.replace("_", " ").split())
        if _BAD_CHARACTERS & set(raw) or len(title.encode()) > _LONGEST_TITLE:
            reason = "The requested page title contains invalid characters."
            self._pages[raw] = {"title": raw, "invalidreason": reason, "invalid": True}
            return
        if title != raw:
            self._normalized[raw] = title
        page = self._content.page(title)
        if page is None:
            self._pages[title] = {"ns": 0, "title": title, "missing": True}
            return
        at, section = page if self._follows else (title, None)
        if at != title:
            self._redirects[title] = {"from": title, "to": at, **({"tofragment": section} if section else {})}
        self._pages[at] = {"pageid": _page_id(at), "ns": 0, "title": at}

    def document(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        if self._normalized:
            parts["normalized"] = [
                {"fromencoded": False, "from": raw, "to": title} for raw, title in self._normalized.items()
            ]
        if self._redirects:
            parts["redirects"] = list(self._redirects.values())
        return {**parts, "pages": list(self._pages.values())}


def _page_id(title: str) -> int:
    return 1 + int.from_bytes(title.encode()[:3], "big") + len(title)


def _add_redirects(
    content: WorldContent, pages: list[dict[str, Any]], params: Mapping[str, str]
) -> dict[str, Any]:
    """Adds redirects to `pages`, at most rdlimit in all, from the position rdcontinue; returns how to continue."""
    asked = params.get("rdlimit", "")
    most = _MOST_REDIRECTS if asked == "max" else min(int(asked or _USUAL_REDIRECTS), _MOST_REDIRECTS)
    start = int(params.get("rdcontinue", "0").rpartition("|")[2])
    has_section = {"fragment": True, "!fragment": False}.get(params.get("rdshow", ""))
    listed = [
        (page, redirect)
        for page in pages
        if "pageid" in page
        for redirect in content.redirects_to(page["title"])
        if has_section is None or (redirect.section is not None) == has_section
    ]
    for page, redirect in listed[start : start + most]:
        entry = {"pageid": _page_id(redirect.title), "ns": 0, "title": redirect.title}
        if redirect.section and "fragment" in params.get("rdprop", ""):
            entry["fragment"] = redirect.section
        page.setdefault("redirects", []).append(entry)
    if start + most >= len(listed):
        return {}
    return {"continue": {"rdcontinue": f"0|{start + most}", "continue": "||"}}
