"""wbgetentities over the sandbox's triples, as in Wikidata's MediaWiki API."""

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
_PROPS = ("info", "sitelinks", "aliases", "labels", "descriptions", "claims", "datatype")
_REDIRECT = "http://www.w3.org/2002/07/owl#sameAs"
_PROP = "http://www.wikidata.org/prop/"
_FULL = re.compile(re.escape(_PROP) + r"P[1-9]\d*")
_RANK = "http://wikiba.se/ontology#rank"
_RANKS = ("preferred", "normal", "deprecated")
_TERMS = {"labels": rdf.LABEL, "descriptions": rdf.DESCRIPTION}


def answer(store: ox.Store, params: Mapping[str, str]) -> Reply:
    """The API's answer to `params`."""
    action = params.get("action", "help")
    if action != "wbgetentities":
        return _error("badvalue", f'Unrecognized value for parameter "action": {action}.')
    if params.get("format", "jsonfm") != "json":
        return _error("badvalue", 'this server knows "format": json only.')
    ids = [entity_id for entity_id in params.get("ids", "").split("|") if entity_id]
    if not ids:
        return _error("param-missing", 'Either provide the item "ids" or pairs of "sites" and "titles".')
    if len(ids) > IDS_A_CALL:
        info = f'Too many values supplied for parameter "ids". The limit is {IDS_A_CALL}.'
        return _error(
            "toomanyvalues", info, parameter="ids", limit=IDS_A_CALL, lowlimit=IDS_A_CALL, highlimit=500
        )
    for entity_id in ids:
        if not _ID.fullmatch(entity_id):
            return _error(
                "no-such-entity", f'Could not find an entity with the ID "{entity_id}".', id=entity_id
            )
    props = params.get("props", "|".join(_PROPS)).split("|")
    languages = frozenset(params["languages"].split("|")) if params.get("languages") else None
    sites = frozenset(params["sitefilter"].split("|")) if params.get("sitefilter") else None
    documents = {
        entity_id: _entity(store, entity_id, props, languages, sites) for entity_id in dict.fromkeys(ids)
    }
    return Reply.json(200, {"entities": documents, "success": 1})


def _error(code: str, info: str, **details: object) -> Reply:
    reply = Reply.json(200, {"error": {"code": code, "info": info, **details}, "servedby": "sandbox"})
    return Reply(reply.status, reply.body, reply.content_type, {"MediaWiki-API-Error": code})


def _entity(
    store: ox.Store,
    entity_id: str,
    props: list[str],
    languages: frozenset[str] | None,
    sites: frozenset[str] | None,
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
        if prop in props:
            terms = reversed(
                _literals(store, item, predicate, languages)
            )  # for several in one language, the first stays
            document[prop] = {language: {"language": language, "value": value} for language, value in terms}
    if "aliases" in props:
        aliases: dict[str, list[dict[str, str]]] = {}
        for language, value in _literals(store, item, rdf.ALIAS, languages):
            aliases.setdefault(language, []).append({"language": language, "value": value})
        document["aliases"] = aliases
    if "claims" in props:
        document["claims"] = _claims(store, item)
    if "sitelinks" in props:
        document["sitelinks"] = {
            site: {"site": site, "title": title, "badges": []}
            for site, title in _sitelinks(store, item)
            if sites is None or site in sites
        }
    return document


def _literals(
    store: ox.Store, item: ox.NamedNode, predicate: str, languages: frozenset[str] | None
) -> list[tuple[str, str]]:
    found = set()
    for quad in store.quads_for_pattern(item, ox.NamedNode(predicate), None):
        term = quad.object
        if (
            isinstance(term, ox.Literal)
            and term.language
            and (languages is None or term.language in languages)
        ):
            found.add((term.language, term.value))
    return sorted(found)


def _claims(store: ox.Store, item: ox.NamedNode) -> dict[str, list[dict[str, Any]]]:
    """Statements by property: full statements with their ranks if there are any, else truthy ones with normal rank."""
    truthy: dict[str, list[dict[str, Any]]] = {}
    full: dict[str, list[dict[str, Any]]] = {}
    for quad in store.quads_for_pattern(item, None, None):
        predicate = quad.predicate.value
        if predicate.startswith(rdf.DIRECT):
            property_id = predicate.removeprefix(rdf.DIRECT)
            truthy.setdefault(property_id, []).append(_statement(property_id, _value(quad.object), "normal"))
        elif _FULL.fullmatch(predicate) and isinstance(quad.object, ox.NamedNode):
            property_id = predicate.removeprefix(_PROP)
            full.setdefault(property_id, []).append(_full_statement(store, property_id, quad.object))
    return truthy | full


def _full_statement(store: ox.Store, property_id: str, node: ox.NamedNode) -> dict[str, Any]:
    """A statement node: its rank, and its value or the class of a node without a value."""
    main = next(store.quads_for_pattern(node, ox.NamedNode(f"{_PROP}statement/{property_id}"), None), None)
    rank = next(store.quads_for_pattern(node, ox.NamedNode(_RANK), None), None)
    said = rank.object.value if rank and isinstance(rank.object, ox.NamedNode) else ""
    name = said.rpartition("#")[2].removesuffix("Rank").lower()
    value = _value(main.object) if main else {"snaktype": "novalue"}
    return _statement(property_id, value, name if name in _RANKS else "normal")


def _statement(property_id: str, value: dict[str, Any], rank: str) -> dict[str, Any]:
    return {"mainsnak": {"property": property_id, **value}, "type": "statement", "rank": rank}


def _value(term: object) -> dict[str, Any]:
    if isinstance(term, ox.NamedNode) and term.value.startswith(rdf.ENTITY):
        value = {"entity-type": "item", "id": term.value.removeprefix(rdf.ENTITY)}
        return {"snaktype": "value", "datavalue": {"type": "wikibase-entityid", "value": value}}
    if isinstance(term, (ox.NamedNode, ox.Literal)):
        return {"snaktype": "value", "datavalue": {"type": "string", "value": term.value}}
    return {"snaktype": "somevalue"}


def _sitelinks(store: ox.Store, item: ox.NamedNode) -> Iterator[tuple[str, str]]:
    for quad in store.quads_for_pattern(None, ox.NamedNode(rdf.ABOUT), item):
        article = quad.subject
        if not isinstance(article, ox.NamedNode):
            continue
        host = urlsplit(article.value).hostname or ""
        for name in store.quads_for_pattern(article, ox.NamedNode(rdf.NAME), None):
            if host.endswith(".wikipedia.org") and isinstance(name.object, ox.Literal):
                yield f"{host.split('.', 1)[0].replace('-', '_')}wiki", name.object.value
