"""SPARQL 1.1 over the sandbox's triples, as in the Wikidata Query Service."""

from __future__ import annotations

import re

import pyoxigraph as ox

from dagster_project.core.sandbox.replies import Reply

_WD = "http://www.wikidata.org/"
PREFIXES = {
    "wd": f"{_WD}entity/",
    "wdt": f"{_WD}prop/direct/",
    "wdtn": f"{_WD}prop/direct-normalized/",
    "wds": f"{_WD}entity/statement/",
    "wdv": f"{_WD}value/",
    "wdref": f"{_WD}reference/",
    "wdata": f"{_WD}wiki/Special:EntityData/",
    "p": f"{_WD}prop/",
    "ps": f"{_WD}prop/statement/",
    "psv": f"{_WD}prop/statement/value/",
    "pq": f"{_WD}prop/qualifier/",
    "pqv": f"{_WD}prop/qualifier/value/",
    "pr": f"{_WD}prop/reference/",
    "wikibase": "http://wikiba.se/ontology#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "schema": "http://schema.org/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "prov": "http://www.w3.org/ns/prov#",
    "bd": "http://www.bigdata.com/rdf#",
    "geo": "http://www.opengis.net/ont/geosparql#",
}
_JSON = "application/sparql-results+json"
_FORMATS = {
    _JSON: ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML,
    "text/csv": ox.QueryResultsFormat.CSV,
    "text/tab-separated-values": ox.QueryResultsFormat.TSV,
}
# Places where SERVICE is not the keyword: IRIs, comments, strings, variables, prefixed names.
_NOT_KEYWORDS = re.compile(
    r"<[^<>\"{}|^`\\\x00-\x20]*>|#[^\n\r]*"
    r'|"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\''
    r'|"(?:[^"\\\n\r]|\\.)*"|\'(?:[^\'\\\n\r]|\\.)*\''
    r"|[?$]\w+|@[A-Za-z-]+|[\w.-]*:[\w.:%-]*",
    re.DOTALL,
)
_SERVICE = re.compile(r"\bSERVICE\b", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


def answer(store: ox.Store, query: str, accept: str = "") -> Reply:
    """The query's results, as JSON unless `accept` names another format; 400 for a malformed or refused query."""
    if not query.strip():
        return Reply.text(
            400, "no query: send it as parameter query, or as a body of type application/sparql-query"
        )
    if has_service(query):
        return Reply.text(400, "SERVICE is refused: this endpoint does not query others")
    try:
        results = store.query(query, prefixes=PREFIXES)
        if isinstance(results, ox.QueryTriples):
            body = results.serialize(format=ox.RdfFormat.N_TRIPLES) or b""
            return Reply(200, body, "application/n-triples")
        kind = next((kind for kind in _FORMATS if kind in accept), _JSON)
        return Reply(200, results.serialize(format=_FORMATS[kind]) or b"", f"{kind};charset=utf-8")
    except (SyntaxError, ValueError) as error:
        return Reply.text(400, f"malformed query: {error}")
    except OSError as error:
        return Reply.text(500, f"the query failed: {error}")


def has_service(query: str) -> bool:
    """Whether the query contains the keyword SERVICE, escaped or not."""
    plain = _ESCAPED.sub(_character, query)
    return bool(_SERVICE.search(_NOT_KEYWORDS.sub(" ", plain)))


def _character(match: re.Match[str]) -> str:
    code = int(match.group(1) or match.group(2), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else match.group()
