"""wbgetentities over the sandbox's triples, as in Wikidata's MediaWiki API: terms and Wikipedia's site links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pyoxigraph as ox

from longtail.sandbox import rdf
from longtail.sandbox.replies import Reply

IDS_A_CALL = 50
_ID = re.compile(r"[QPL][1-9]\d{0,18}")
_REDIRECT = "http://www.w3.org/2002/07/owl#sameAs"
_TERMS = {"labels": rdf.LABEL, "descriptions": rdf.DESCRIPTION}


def answer(store: ox.Store, params: Mapping[str, str]) -> Reply:
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
    target = next(store.quads_for_pattern(item, ox.NamedNode(_REDIRECT), None), None)
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
        for name in store.quads_for_pattern(article, ox.NamedNode(rdf.NAME), None):
            if host.endswith(".wikipedia.org") and isinstance(name.object, ox.Literal):
                yield f"{host.split('.', 1)[0].replace('-', '_')}wiki", name.object.value
