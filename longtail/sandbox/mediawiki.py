"""Titles and redirects of the sandbox's encyclopaedia, as in MediaWiki's action=query with redirects=1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail.sandbox.pages import Pages
from longtail.sandbox.replies import Reply

PATH = "/en/w/api.php"
TITLES_A_CALL = 50
_MOST_REDIRECTS = 500


def answer(pages: Pages, params: Mapping[str, str]) -> Reply:
    """The API's answer to `params`; its errors have status 200."""
    titles = params.get("titles", "").split("|")
    wanted = {"action": "query", "format": "json", "formatversion": "2", "redirects": "1"}
    if any(params.get(name) != value for name, value in wanted.items()):
        return Reply.api_error("badvalue", f"this server knows {wanted} only.")
    if len(titles) > TITLES_A_CALL:
        return Reply.api_error("toomanyvalues", f"Too many titles. The limit is {TITLES_A_CALL}.")
    normalized: dict[str, str] = {}
    redirects: dict[str, dict[str, str]] = {}
    documents: dict[str, dict[str, Any]] = {}
    for raw in titles:
        title = " ".join(raw.replace("_", " ").split())
        if title != raw:
            normalized[raw] = title
        page = pages.lead_to(title)
        if page is None:
            documents[title] = {"ns": 0, "title": title, "missing": True}
            continue
        current, section = page
        if current != title:
            fragment = {"tofragment": section} if section else {}
            redirects[title] = {"from": title, "to": current, **fragment}
        documents[current] = {"pageid": _page_id(current), "ns": 0, "title": current}
    more = _add_redirects(pages, documents, params) if params.get("prop") == "redirects" else {}
    query = {
        "normalized": [{"fromencoded": False, "from": raw, "to": title} for raw, title in normalized.items()],
        "redirects": list(redirects.values()),
        "pages": list(documents.values()),
    }
    return Reply.json(200, {"query": {name: rows for name, rows in query.items() if rows}, **more})


def _page_id(title: str) -> int:
    return 1 + int.from_bytes(title.encode()[:3], "big") + len(title)


def _add_redirects(
    pages: Pages, documents: Mapping[str, dict[str, Any]], params: Mapping[str, str]
) -> dict[str, Any]:
    """Add the redirects to whole articles, from the position rdcontinue; return how to continue."""
    start = int(params.get("rdcontinue", "0").rpartition("|")[2])
    listed = [
        (document, redirect)
        for document in documents.values()
        for redirect in pages.redirects_to(document["title"])
        if redirect.section is None
    ]
    for document, redirect in listed[start : start + _MOST_REDIRECTS]:
        entry = {"pageid": _page_id(redirect.title), "ns": 0, "title": redirect.title}
        document.setdefault("redirects", []).append(entry)
    if start + _MOST_REDIRECTS >= len(listed):
        return {"batchcomplete": True}
    return {"continue": {"rdcontinue": f"0|{start + _MOST_REDIRECTS}", "continue": "||"}}
