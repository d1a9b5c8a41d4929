"""Truthy statements of listed subjects, from their claims in wbgetentities.

A property's truthy statements are those of the best rank: the preferred ones, or else the normal ones, never
deprecated ones. Statements with an unknown value are put aside. Statements of "no value" are only counted: the query
service and the dump do not list them either. A redirected entity has the statements of its target, under the target's
id, as in the query service and the dump.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.relations.relation import Relation
from longtail.storage.lake import QuarantinedRow
from longtail.study.source import Source
from longtail.transfer.client import HttpClient
from longtail.wikimedia.protocols.entities import fetch_documents
from longtail.wikimedia.protocols.wikidata import Statement

_ID = re.compile(r"Q[1-9]\d{0,18}")
_RANKS = ("preferred", "normal")
_UNKNOWN = "an unknown value"


def read_ids(source: Source) -> list[str]:
    """The subjects in the file that `ids_env` names: one id per line, each once. Errors: `SourceError`."""
    named = os.environ.get(source.ids_env, "").strip()
    if not named:
        raise SourceError(
            f"environment variable {source.ids_env} is not set; set it to a file of ids, one (Q…) a line"
        )
    path = Path(named).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{path}: cannot be read ({error}); {source.ids_env} must name a file of ids"
        ) from None
    ids: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not _ID.fullmatch(text):
            raise SourceError(
                f"{path}: line {number}: {text[:40]!r} is no entity id; expected Q and a number"
            )
        if text:
            ids[text] = None
    return list(ids)


def fetch_claims(
    client: HttpClient, url: str, ids: Sequence[str], relations: Sequence[Relation], log: logging.Logger
) -> tuple[list[Statement], list[QuarantinedRow], dict[str, int]]:
    """The truthy statements of `relations` about `ids`, the statements whose object is not an item, and counts of the
    rest.

    Errors: `SourceError`.
    """
    found: set[Statement] = set()
    rejected: dict[tuple[str, str], QuarantinedRow] = {}
    counts: Counter[str] = Counter()
    told: set[str] = set()  # the list may contain an entity and a redirect to it
    for entity_id, document in fetch_documents(client, url, ids, log, props="claims"):
        if not isinstance(document, dict) or "missing" in document:
            rejected[entity_id, ""] = QuarantinedRow(entity_id, "no such entity", str(document or ""))
            continue
        subject_id = _target(entity_id, document)
        counts["redirected"] += subject_id != entity_id
        if subject_id in told:
            continue
        told.add(subject_id)
        claims = document.get("claims")
        for relation in relations:
            property_id = relation.property_id
            statements = claims.get(property_id) if isinstance(claims, dict) else None
            for object_id, reason in _truthy(statements, counts):
                if object_id:
                    found.add(Statement(subject_id, property_id, object_id))
                else:
                    raw = f"{subject_id} {property_id}"
                    row = QuarantinedRow(raw, f"object is no item but {reason}", raw)
                    rejected[raw, reason] = row
    return sorted(found), list(rejected.values()), {name: n for name, n in counts.items() if n}


def _target(entity_id: str, document: Mapping[str, Any]) -> str:
    """The document's own id: for a redirected entity, its target's id."""
    own = document.get("id")
    return own if isinstance(own, str) and _ID.fullmatch(own) else entity_id


def _truthy(statements: Any, counts: Counter[str]) -> Iterator[tuple[str | None, str]]:
    """(object id, "") of each truthy statement, or (None, what the statement has instead); others are counted."""
    listed = [one for one in statements if isinstance(one, dict)] if isinstance(statements, list) else []
    best = next((rank for rank in _RANKS if any(one.get("rank") == rank for one in listed)), None)
    for statement in listed:
        if best and statement.get("rank") == best:
            snak = statement.get("mainsnak")
            if isinstance(snak, Mapping) and snak.get("snaktype") == "novalue":
                counts["no_value"] += 1
                continue
            yield _object(snak)
        else:
            counts["deprecated" if statement.get("rank") == "deprecated" else "outranked"] += 1


def _object(snak: Any) -> tuple[str | None, str]:
    if not isinstance(snak, Mapping):
        return None, "nothing readable"
    if snak.get("snaktype") == "somevalue":
        return None, _UNKNOWN
    value = snak.get("datavalue")
    inner = value.get("value") if isinstance(value, Mapping) else None
    object_id = inner.get("id") if isinstance(inner, Mapping) else None
    if isinstance(object_id, str) and _ID.fullmatch(object_id):
        return object_id, ""
    return None, "a literal" if not isinstance(inner, Mapping) else "another resource"
