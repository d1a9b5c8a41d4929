"""Facts and entities from a Wikibase: statements and numbers of site links by SPARQL, entities by wbgetentities.

A relation is asked for in slices: disjoint, complete together, small enough for a service with a time limit. The first
query asks for the whole relation. If that is too much, the relation is divided by object, which is cheap for the index of
any triple store. One object's statements are divided by a hash of the subject. Statements whose object is not an IRI
(literals, unknown values) form their own slice, since VALUES cannot name them. There is no ORDER BY and no LIMIT, so that
no row can be lost or doubled between slices.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longtail.errors import SourceError
from longtail.parsing.rdf import DIRECT, ENTITY, SITELINKS
from longtail.parsing.terms import LONGEST_DESCRIPTION, LONGEST_LABEL, clean_term
from longtail.progress import Progress
from longtail.relations.relation import Relation
from longtail.storage.lake import QuarantinedRow
from longtail.threads import map_in_order
from longtail.transfer.client import HttpClient
from longtail.transfer.http import SlowAnswerError
from longtail.transfer.limits import ENTITY_API, QUERY_SERVICE

OBJECTS_AT_ONCE = 256
_HASHES = 16**4

_COUNTS_A_QUERY = 400
_SLOW_IN_A_ROW = 12
_ITEM = re.compile(r"Q[1-9]\d{0,18}")
_TERM = ("type", "value")
_SELECTED = re.compile(r"\?(\w+)")
_IRI = re.compile(r"[^\x00-\x20<>\"{}|^`\\]+")


@dataclass(frozen=True)
class Slice:
    """Some of the statements of one property.

    `objects` None: any object. `is_remainder`: only objects that are not IRIs. `first_hash`, `end_hash`: only subjects
    whose MD5 begins with four hexadecimal digits in [first, end).
    """

    property_iri: str
    objects: tuple[str, ...] | None = None
    is_remainder: bool = False
    first_hash: int = 0
    end_hash: int = _HASHES

    @property
    def is_whole(self) -> bool:
        return self.objects is None and not self.is_remainder and self.end_hash - self.first_hash == _HASHES

    def query(self) -> str:
        """The slice as SPARQL 1.1, with one row (?subject, ?object) per statement."""
        return f"SELECT ?subject ?object WHERE {{ {self._pattern()} }}"

    def _pattern(self) -> str:
        parts = []
        if self.objects is not None:
            parts.append(f"VALUES ?object {{ {' '.join(f'<{iri}>' for iri in self.objects)} }}")
        parts.append(f"?subject <{self.property_iri}> ?object .")
        if self.is_remainder:
            parts.append("FILTER(!isIRI(?object))")
        digits = "SUBSTR(MD5(STR(?subject)), 1, 4)"
        if self.first_hash > 0:
            parts.append(f'FILTER({digits} >= "{self.first_hash:04x}")')
        if self.end_hash < _HASHES:
            parts.append(f'FILTER({digits} < "{self.end_hash:04x}")')
        return " ".join(parts)

    def by_object(self, objects: list[str]) -> list[Slice]:
        """The whole relation divided by its objects, and the remainder."""
        batches = [
            tuple(objects[at : at + OBJECTS_AT_ONCE]) for at in range(0, len(objects), OBJECTS_AT_ONCE)
        ]
        return [replace(self, is_remainder=True), *(replace(self, objects=batch) for batch in batches)]

    def halves(self) -> list[Slice]:
        """Two slices that together are this one; empty if it cannot be divided further."""
        if self.objects is not None and len(self.objects) > 1:
            middle = len(self.objects) // 2
            return [
                replace(self, objects=self.objects[:middle]),
                replace(self, objects=self.objects[middle:]),
            ]
        if self.end_hash - self.first_hash < 2:
            return []
        middle = (self.first_hash + self.end_hash) // 2
        return [replace(self, end_hash=middle), replace(self, first_hash=middle)]


@dataclass(frozen=True, order=True)
class Statement:
    """One truthy statement between two items."""

    subject_id: str
    property_id: str
    object_id: str


def item_id(iri: str) -> str | None:
    """The item's identifier (Q…) in an IRI of a Wikidata entity; None for anything else."""
    identifier = iri.removeprefix(ENTITY)
    return identifier if identifier != iri and _ITEM.fullmatch(identifier) else None


def fetch_statements(
    client: HttpClient, sparql_url: str, relation: Relation, log: logging.Logger
) -> tuple[list[Statement], list[QuarantinedRow]]:
    """All truthy statements of a relation, sorted, and the statements put aside because an end is not an item.

    Errors: `SourceError` where the service fails, or is too slow even for the smallest slice.
    """
    progress = Progress(log, f"statements of {relation.name}")
    found: set[Statement] = set()
    rejected: dict[str, QuarantinedRow] = {}
    for row in _rows_of(client, sparql_url, Slice(DIRECT + relation.property_id), progress):
        subject, obj = row["subject"], row["object"]
        subject_id, object_id = (
            item_id(end["value"]) if end["type"] == "uri" else None for end in (subject, obj)
        )
        if subject_id and object_id:
            found.add(Statement(subject_id, relation.property_id, object_id))
        else:
            key = f"{subject_id or subject['value']} {relation.property_id}"
            reason = f"object is no item but {_describe(obj)}" if subject_id else "subject is no item"
            raw = f"{subject['value']} {relation.property_id} {obj['value']}"
            rejected[raw] = QuarantinedRow(key, reason, raw)
    progress.done()
    return sorted(found), [rejected[raw] for raw in sorted(rejected)]


def _describe(term: Mapping[str, str]) -> str:
    if term["type"] == "bnode" or "/.well-known/genid/" in term["value"]:
        return "an unknown value"
    return "a literal" if term["type"].endswith("literal") else "another resource"


def _rows_of(
    client: HttpClient, url: str, whole: Slice, progress: Progress
) -> Iterator[dict[str, dict[str, str]]]:
    waiting, slow_in_a_row = [whole], 0
    while waiting:
        part = waiting.pop()
        try:
            rows = select(client, url, part.query(), fail_fast_when_slow=True)
            slow_in_a_row = 0
        except SlowAnswerError as error:
            slow_in_a_row += 1
            parts = _smaller(client, url, part) if slow_in_a_row < _SLOW_IN_A_ROW else []
            if not parts:
                raise SourceError(f"{error} (even for the smallest slice of {part.property_iri})") from None
            waiting.extend(reversed(parts))
            continue
        progress.add(len(rows))
        yield from rows


def _smaller(client: HttpClient, url: str, part: Slice) -> list[Slice]:
    if not part.is_whole:
        return part.halves()
    query = (
        f"SELECT DISTINCT ?object WHERE {{ ?subject <{part.property_iri}> ?object . FILTER(isIRI(?object)) }}"
    )
    try:
        rows = select(client, url, query, fail_fast_when_slow=True)
    except SlowAnswerError:
        return part.halves()
    iris = sorted({row["object"]["value"] for row in rows})
    if not all(_IRI.fullmatch(iri) for iri in iris):
        return part.halves()  # the query cannot name one of the objects: divide by subject instead
    return part.by_object(iris)


def select(
    client: HttpClient, url: str, query: str, *, fail_fast_when_slow: bool = False
) -> list[dict[str, dict[str, str]]]:
    """The rows of a SELECT, in the SPARQL 1.1 JSON results format."""
    names = _SELECTED.findall(query.partition("WHERE")[0])
    document = client.post_json(
        QUERY_SERVICE,
        url,
        {"query": query, "format": "json"},
        fail_fast_when_slow=fail_fast_when_slow,
        accept=lambda answer: _wrong_with(answer, names),
    )
    rows: list[dict[str, dict[str, str]]] = document["results"]["bindings"]
    return rows


def _wrong_with(document: Any, names: Sequence[str]) -> str | None:
    """What is missing in an answer to a SELECT with the variables `names`; None if it is complete."""
    try:
        rows = document["results"]["bindings"]
        is_whole = all(isinstance(row[name][part], str) for row in rows for name in names for part in _TERM)
    except KeyError as error:
        return f"answered a SPARQL result without {error}"
    except TypeError:
        is_whole = False
    return None if is_whole else "answered JSON that is no SPARQL result"


def fetch_sitelinks(
    client: HttpClient, sparql_url: str, ids: Sequence[str], log: logging.Logger
) -> dict[str, int]:
    """Entity id → number of site links, for the entities whose number is known."""
    progress = Progress(log, "site link counts", len(ids))
    counts: dict[str, int] = {}
    for batch in batches(ids, _COUNTS_A_QUERY):
        values = " ".join(f"<{ENTITY}{entity_id}>" for entity_id in batch)
        query = f"SELECT ?entity ?n WHERE {{ VALUES ?entity {{ {values} }} ?entity <{SITELINKS}> ?n }}"
        for row in select(client, sparql_url, query):
            entity_id, number = item_id(row["entity"]["value"]), row["n"]["value"]
            if entity_id and number.isascii() and number.isdecimal() and len(number) < 10:
                counts[entity_id] = max(int(number), counts.get(entity_id, 0))
        progress.add(len(batch))
    progress.done()
    return counts


def batches(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    return [ids[at : at + size] for at in range(0, len(ids), size)]


def sort_ids(ids: Iterable[str]) -> list[str]:
    """Entity ids in the order of their numbers."""
    return sorted(set(ids), key=lambda entity_id: (len(entity_id), entity_id))


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

    def fetch(batch: Sequence[str]) -> Mapping[str, Any]:
        return entity_documents(client, entities_url, batch, **props)

    calls = batches(ids, IDS_A_CALL)
    progress = Progress(log, "entities", len(ids))
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
