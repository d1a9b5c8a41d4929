"""A TagMe-compatible service over the sandbox's articles: finds names in a text and links them to articles.

TagMe's own disambiguation is not included: among several articles with one name, the most viewed is chosen, and rho
falls with their number.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping

from longtail.parsing.dictionary import Dictionary, Mention
from longtail.sandbox.pages import Pages
from longtail.sandbox.replies import Reply

PATH = "/tagme/tag"
TOKEN = "sandbox"  # noqa: S105 (of a service on this machine, which has no other)
LANGUAGES = ("en", "de", "it")
_SURE = 0.8  # rho of a name that belongs to one article only
_MONTH = "2026-09"
_TIMESTAMP = "2026-10-01T00:00:00"
_lock = threading.Lock()
_dictionaries: weakref.WeakKeyDictionary[Pages, Dictionary] = weakref.WeakKeyDictionary()


def answer(pages: Pages, params: Mapping[str, str]) -> Reply:
    """The service's answer to `params`."""
    if params.get("gcube-token") != TOKEN:
        return Reply.text(401, "Unauthorized: a valid gcube-token is needed")
    language = params.get("lang", "en")
    if not params.get("text") or language not in LANGUAGES:
        return Reply.text(400, f"Bad request: text is missing, or lang is none of {', '.join(LANGUAGES)}")
    mentions = _dictionary(pages).mentions(params["text"]) if language == "en" else []
    document = {
        "test": "5",
        "annotations": [_annotation(pages, mention) for mention in mentions],
        "time": 0,
        "api": "tag",
        "lang": language,
        "timestamp": _TIMESTAMP,
    }
    return Reply.json(200, document)


def _dictionary(pages: Pages) -> Dictionary:
    with _lock:
        if pages not in _dictionaries:
            titles: dict[str, set[str]] = {}
            for entity in pages.world.entities():
                if entity.article_title is not None:
                    for name in (entity.label, *entity.aliases):
                        titles.setdefault(name, set()).add(entity.article_title)
            _dictionaries[pages] = Dictionary(titles)
        return _dictionaries[pages]


def _annotation(pages: Pages, mention: Mention) -> dict[str, object]:
    title = max(mention.ids, key=lambda title: (pages.views(title, _MONTH) or 0, title))
    return {
        "spot": mention.spot,
        "start": mention.start,
        "end": mention.end,
        "link_probability": round(1 / len(mention.ids), 4),
        "rho": round(_SURE / len(mention.ids), 4),
        "id": sum(title.encode()) + 1,
        "title": title,
    }
