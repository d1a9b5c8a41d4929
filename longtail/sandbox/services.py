"""The sandbox's services: Wikidata's and Wikipedia's APIs, page views and dumps, and a service like TagMe.

`answer_entities` is wbgetentities over the sandbox's triples, `answer_titles` is MediaWiki's action=query with
redirects=1. TagMe's own disambiguation is not included: among several articles with one name, the most viewed is chosen,
and rho falls with their number.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

import pyoxigraph as ox

from longtail.parsing import rdf
from longtail.parsing.dictionary import Dictionary, Mention
from longtail.sandbox import dumps
from longtail.sandbox.world import Pages, World

_RANGE = re.compile(r"bytes=(\d{1,15})-")


@dataclass(frozen=True)
class Reply:
    """One answer; a body that is not bytes is sent piece by piece."""

    status: int
    body: bytes | Iterator[bytes]
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, status: int, document: Any, content_type: str = "application/json; charset=utf-8") -> Reply:
        return cls(
            status, json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"), content_type
        )

    @classmethod
    def api_error(cls, code: str, info: str) -> Reply:
        """An error of MediaWiki's API, which has status 200."""
        return cls.json(200, {"error": {"code": code, "info": info}, "servedby": "sandbox"})

    @classmethod
    def text(cls, status: int, text: str) -> Reply:
        return cls(status, text.encode("utf-8", "backslashreplace"), "text/plain; charset=utf-8")


def from_byte(reply: Reply, asked: str, condition: str) -> Reply:
    """The answer to a request with the headers Range (`asked`) and If-Range (`condition`): the end of the body.

    The answer is the whole body if there is no such range, or if the condition names another version.
    """
    match = _RANGE.fullmatch(asked)
    if not match or reply.status != 200 or condition != reply.headers.get("ETag"):
        return reply
    body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    start = int(match[1])
    if start >= len(body):
        return Reply(416, b"", reply.content_type, {"Content-Range": f"bytes */{len(body)}"})
    more = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
    return Reply(206, body[start:], reply.content_type, {**reply.headers, **more})


IDS_A_CALL = 50
_ID = re.compile(r"[QPL][1-9]\d{0,18}")
_TERMS = {"labels": rdf.LABEL, "descriptions": rdf.DESCRIPTION}


def answer_entities(store: ox.Store, params: Mapping[str, str]) -> Reply:
    """The API's answer to `params`."""
    if params.get("action") != "wbgetentities" or params.get("format") != "json":
        return Reply.api_error("badvalue", "this server knows action: wbgetentities and format: json only.")
    ids = params.get("ids", "").split("|")
    if len(ids) > IDS_A_CALL:
        return Reply.api_error(
            "toomanyvalues", f'Too many values supplied for parameter "ids". The limit is {IDS_A_CALL}.'
        )
    for entity_id in ids:
        if not _ID.fullmatch(entity_id):
            return Reply.api_error("no-such-entity", f'Could not find an entity with the ID "{entity_id}".')
    props = params.get("props", "labels|aliases|descriptions|sitelinks").split("|")
    languages, sites = (params.get(key, "").split("|") for key in ("languages", "sitefilter"))
    documents = {entity_id: _entity(store, entity_id, props, languages, sites) for entity_id in ids}
    return Reply.json(200, {"entities": documents, "success": 1})


def _entity(
    store: ox.Store, entity_id: str, props: list[str], languages: list[str], sites: list[str]
) -> dict[str, Any]:
    item = ox.NamedNode(rdf.ENTITY + entity_id)
    if next(store.quads_for_pattern(item, None, None), None) is None:
        return {"id": entity_id, "missing": ""}
    document: dict[str, Any] = {"type": "item", "id": entity_id}
    target = next(store.quads_for_pattern(item, ox.NamedNode(rdf.REDIRECT), None), None)
    if target is not None and isinstance(target.object, ox.NamedNode):
        to = target.object.value.removeprefix(rdf.ENTITY)
        document = {"type": "item", "id": to, "redirects": {"from": entity_id, "to": to}}
        item = target.object
    for prop, predicate in _TERMS.items():
        if prop in props:  # of several in one language, the first stays
            terms = reversed(_literals(store, item, predicate, languages))
            document[prop] = {language: {"language": language, "value": value} for language, value in terms}
    if "aliases" in props:
        aliases: dict[str, list[dict[str, str]]] = {}
        for language, value in _literals(store, item, rdf.ALIAS, languages):
            aliases.setdefault(language, []).append({"language": language, "value": value})
        document["aliases"] = aliases
    if "sitelinks" in props:
        document["sitelinks"] = {
            site: {"site": site, "title": title, "badges": []}
            for site, title in _sitelinks(store, item)
            if site in sites or sites == [""]
        }
    return document


def _literals(
    store: ox.Store, item: ox.NamedNode, predicate: str, languages: list[str]
) -> list[tuple[str, str]]:
    terms = (quad.object for quad in store.quads_for_pattern(item, ox.NamedNode(predicate), None))
    literals = {
        (term.language, term.value) for term in terms if isinstance(term, ox.Literal) and term.language
    }
    return sorted(pair for pair in literals if pair[0] in languages or languages == [""])


def _sitelinks(store: ox.Store, item: ox.NamedNode) -> Iterator[tuple[str, str]]:
    for quad in store.quads_for_pattern(None, ox.NamedNode(rdf.ABOUT), item):
        article = quad.subject
        if not isinstance(article, ox.NamedNode):
            continue
        host = urlsplit(article.value).hostname or ""
        for name in store.quads_for_pattern(article, ox.NamedNode(dumps.NAME), None):
            if host.endswith(".wikipedia.org") and isinstance(name.object, ox.Literal):
                yield f"{host.split('.', 1)[0].replace('-', '_')}wiki", name.object.value


TITLES_PATH = "/en/w/api.php"
TITLES_A_CALL = 50
_MOST_REDIRECTS = 500


def answer_titles(pages: Pages, params: Mapping[str, str]) -> Reply:
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


PER_ARTICLE = "/api/rest_v1/metrics/pageviews/per-article/"
DUMP = "/other/cirrussearch/current/enwiki-content.json.gz"
TRUTHY = "/wikidatawiki/entities/latest-truthy.nt"
_PAGE_VIEWS = re.compile(
    r"/other/pageview_complete/monthly/(\d{4})/\1-(0[1-9]|1[0-2])/pageviews-\1\2-user\.bz2"
)
_ROUTE = re.compile(
    rf"{PER_ARTICLE}en\.wikipedia/all-access/(?P<agent>all-agents|user)/(?P<title>[^/]+)/monthly"
    r"/(?P<first>\d{8})00/(?P<last>\d{8})00"
)


def page_views(pages: Pages, path: str) -> Reply:
    """Monthly views of one article of the English Wikipedia, for the months that are completely within [first, last]."""
    match = _ROUTE.fullmatch(path)
    try:
        if not match:
            raise ValueError("the route is en.wikipedia/all-access/agent/article/monthly/start/end")
        first, last = (date.fromisoformat(match[name]) for name in ("first", "last"))
    except ValueError as error:
        return _problem(400, "Bad Request", str(error), path)
    after = last + timedelta(days=1)
    title = unquote(match["title"]).replace("_", " ")
    items = []
    for number in range(12 * first.year + first.month - (first.day == 1), 12 * after.year + after.month - 1):
        month = f"{number // 12}-{number % 12 + 1:02d}"
        views = pages.views(title, month)
        if views is not None:
            items.append(_item(title, month, match["agent"], views))
    if not items:
        return _problem(404, "Not Found", "the article is not known, or has no data for these dates", path)
    return Reply.json(200, {"items": items})


def _item(title: str, month: str, agent: str, views: int) -> dict[str, object]:
    return {
        "project": "en.wikipedia",
        "article": title.replace(" ", "_"),
        "granularity": "monthly",
        "timestamp": f"{month.replace('-', '')}0100",
        "access": "all-access",
        "agent": agent,
        # Crawlers read every article, and popular ones more often.
        "views": views if agent == "user" else views + views // 10 + 40,
    }


def _problem(status: int, title: str, detail: str, path: str) -> Reply:
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail, "uri": path}
    return Reply.json(status, document, "application/problem+json")


def dump(world: World, path: str) -> Reply | None:
    """The dump of articles, of truthy facts, or of a month's page views, made while it is sent; None for another path."""
    if path == DUMP:
        return Reply(200, dumps.compress(dumps.article_lines(world), ".gz"), "application/gzip")
    if (suffix := path.removeprefix(TRUTHY)) in dumps.SUFFIXES:
        lines = dumps.truthy_lines(world)
    elif match := _PAGE_VIEWS.fullmatch(path):
        lines, suffix = dumps.page_view_lines(world, f"{match[1]}-{match[2]}"), ".bz2"
    else:
        return None
    pieces = dumps.compress(lines, suffix)
    first = next(pieces)
    tag = f'"{hashlib.sha256(path.encode() + first).hexdigest()[:16]}"'
    return Reply(200, chain([first], pieces), "application/octet-stream", {"ETag": tag})


TAGME_PATH = "/tagme/tag"
TAGME_TOKEN = "sandbox"  # noqa: S105 (of a service on this machine, which has no other)
LANGUAGES = ("en", "de", "it")
_SURE = 0.8  # rho of a name that belongs to one article only
_MONTH = "2026-09"
_TIMESTAMP = "2026-10-01T00:00:00"


def answer_links(pages: Pages, params: Mapping[str, str]) -> Reply:
    """The service's answer to `params`."""
    if params.get("gcube-token") != TAGME_TOKEN:
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


@functools.lru_cache(maxsize=1)
def _dictionary(pages: Pages) -> Dictionary:
    titles: dict[str, set[str]] = {}
    for entity in pages.world.entities():
        if entity.article_title is not None:
            for name in (entity.label, *entity.aliases):
                titles.setdefault(name, set()).add(entity.article_title)
    return Dictionary(titles)


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
