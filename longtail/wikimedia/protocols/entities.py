"""Entities from a Wikibase, by wbgetentities: labels, aliases, descriptions, English article titles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.errors import SourceError
from longtail.parsing.terms import LONGEST_DESCRIPTION, LONGEST_LABEL, clean_term
from longtail.progress import Progress
from longtail.storage.lake import QuarantinedRow
from longtail.threads import map_in_order
from longtail.transfer.client import HttpClient
from longtail.transfer.limits import ENTITY_API
from longtail.wikimedia.protocols.wikidata import batches

IDS_A_CALL = 50  # the entity API's own limit


def busy(document: Any) -> str | None:
    """The reason if the API reports overload inside an answer with status 200; else None."""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return f"answered that it is busy ({code})" if code in ("maxlag", "ratelimited", "readonly") else None


@dataclass(frozen=True)
class Entity:
    """One entity with cleaned terms. `label` is English, or the label for all languages if there is no English one."""

    entity_id: str
    label: str
    aliases: tuple[str, ...]
    description: str | None
    article_title: str | None


def fetch_entities(
    client: HttpClient, entities_url: str, ids: Sequence[str], log: logging.Logger
) -> tuple[list[Entity], list[QuarantinedRow], int]:
    """The entities in the order of `ids`, and how many of them redirect to others.

    Put aside: entities that do not exist or have no label, and the originals of corrected terms.
    """
    n_redirected = 0
    entities: list[Entity] = []
    rejected: list[QuarantinedRow] = []
    for entity_id, document in fetch_documents(client, entities_url, ids, log):
        entity = read_entity(entity_id, document, rejected.append)
        n_redirected += isinstance(document, dict) and "redirects" in document
        if entity:
            entities.append(entity)
    return entities, rejected, n_redirected


def fetch_documents(
    client: HttpClient, entities_url: str, ids: Sequence[str], log: logging.Logger, **props: str
) -> Iterator[tuple[str, Any]]:
    """(entity id, its JSON or None) in the order of `ids`; `props` as in `entity_documents`."""
    progress = Progress(log, "entities", len(ids))

    def fetch(batch: Sequence[str]) -> Mapping[str, Any]:
        return entity_documents(client, entities_url, batch, **props)

    calls = batches(ids, IDS_A_CALL)
    for batch, documents in zip(calls, map_in_order(fetch, calls, ENTITY_API.max_parallel), strict=True):
        yield from ((entity_id, documents.get(entity_id)) for entity_id in batch)
        progress.add(len(batch))
    progress.done()


def entity_documents(
    client: HttpClient, url: str, ids: Sequence[str], props: str = "labels|aliases|descriptions|sitelinks"
) -> Mapping[str, Any]:
    """The service's JSON of at most 50 entities, by requested id; for a redirect, the JSON of its target."""
    params = {
        "action": "wbgetentities",
        "format": "json",
        "ids": "|".join(ids),
        "props": props,
        "languages": "en|mul",
        "sitefilter": "enwiki",
    }
    document = client.get_json(ENTITY_API, url, params, accept=busy)
    error = document.get("error") if isinstance(document, dict) else None
    if error and error.get("code") == "no-such-entity" and len(ids) > 1:
        # One invalid identifier makes the service refuse the whole batch: ask for the halves.
        middle = len(ids) // 2
        return {
            **entity_documents(client, url, ids[:middle], props),
            **entity_documents(client, url, ids[middle:], props),
        }
    if error and error.get("code") == "no-such-entity":
        return {}
    if error or not isinstance(document, dict) or not isinstance(document.get("entities"), dict):
        what = f"{error.get('code')}: {error.get('info')}" if error else "JSON without entities"
        raise SourceError(f"{ENTITY_API.name} at {url}: answered {what} for {ids[0]} and {len(ids) - 1} more")
    entities: Mapping[str, Any] = document["entities"]
    return entities


def read_entity(entity_id: str, document: Any, put_aside: Callable[[QuarantinedRow], None]) -> Entity | None:
    """One entity from its JSON; None, and a row put aside, if it does not exist or has no label."""
    if not isinstance(document, dict) or "missing" in document:
        put_aside(QuarantinedRow(entity_id, "no such entity", str(document or "")))
        return None

    def term(what: str, raw: str, longest: int = LONGEST_LABEL) -> str:
        cleaned = clean_term(raw, longest)
        for note in cleaned.notes:
            put_aside(QuarantinedRow(f"{entity_id} {what}", f"{what} kept, {note}", raw))
        return cleaned.text

    label = term("label", _preference(document, "labels") or "")
    if not label:
        put_aside(QuarantinedRow(entity_id, "no English label", str(_mapping(document.get("labels")))))
        return None
    aliases = (term("alias", raw) for raw in _aliases(document))
    description = term("description", _preference(document, "descriptions") or "", LONGEST_DESCRIPTION)
    title = term(
        "article title", str(_mapping(_mapping(document.get("sitelinks")).get("enwiki")).get("title") or "")
    )
    kept = tuple(dict.fromkeys(alias for alias in aliases if alias and alias != label))
    return Entity(entity_id, label, kept, description or None, title or None)


def _preference(document: Mapping[str, Any], what: str) -> str | None:
    by_language = _mapping(document.get(what))
    for language in ("en", "mul"):
        value = _mapping(by_language.get(language)).get("value")
        if isinstance(value, str) and value.strip():
            return value
    return None


def _aliases(document: Mapping[str, Any]) -> Iterator[str]:
    by_language = _mapping(document.get("aliases"))
    for language in ("en", "mul"):
        values = (_mapping(alias).get("value") for alias in by_language.get(language) or ())
        yield from sorted(value for value in values if isinstance(value, str))


def _mapping(value: Any) -> Mapping[str, Any]:
    """MediaWiki writes an empty mapping as an empty list."""
    return value if isinstance(value, dict) else {}
