"""Truthy statements of listed subjects, from their claims in wbgetentities.

What belongs here: which claims are truthy, and the list of subjects. What does not: the calls (`entities`).

Truthy are a property's statements of the best rank: the preferred ones, where there are none the normal ones,
never deprecated ones. Statements without a value, or with an unknown one, are put aside.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.lake import QuarantinedRow
from dagster_project.core.questions.relations import Relation
from dagster_project.core.study import Source
from dagster_project.core.wikimedia.entities import fetch_documents
from dagster_project.core.wikimedia.http import HttpClient
from dagster_project.core.wikimedia.wikidata import Statement

_ID = re.compile(r"Q[1-9]\d{0,18}")
_RANKS = ("preferred", "normal")
_NO_ITEM = {"somevalue": "an unknown value", "novalue": "no value"}


def listed_ids(source: Source) -> list[str]:
    """The subjects in the file that `ids_env` names, one id a line, each once. Errors: `SourceError`."""
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
) -> tuple[list[Statement], list[QuarantinedRow]]:
    """The truthy statements of `relations` about `ids`; those whose object is no item are put aside.

    Errors: `SourceError`.
    """
    found: set[Statement] = set()
    aside: list[QuarantinedRow] = []
    for entity_id, document in fetch_documents(client, url, ids, log, props="claims"):
        if not isinstance(document, dict) or "missing" in document:
            aside.append(QuarantinedRow(entity_id, "no such entity", str(document or "")))
            continue
        claims = document.get("claims")
        for relation in relations:
            property_id = relation.property_id
            for object_id, reason in _truthy(claims.get(property_id) if isinstance(claims, dict) else None):
                if object_id:
                    found.add(Statement(entity_id, property_id, object_id))
                else:
                    raw = f"{entity_id} {property_id}"
                    aside.append(QuarantinedRow(raw, f"object is no item but {reason}", raw))
    return sorted(found), aside


def _truthy(statements: Any) -> Iterator[tuple[str | None, str]]:
    """(object id, "") of each truthy statement, or (None, what stands there instead)."""
    listed = [one for one in statements if isinstance(one, dict)] if isinstance(statements, list) else []
    best = next((rank for rank in _RANKS if any(one.get("rank") == rank for one in listed)), None)
    for statement in listed:
        if best and statement.get("rank") == best:
            yield _object(statement.get("mainsnak"))


def _object(snak: Any) -> tuple[str | None, str]:
    if not isinstance(snak, Mapping):
        return None, "nothing readable"
    if snak.get("snaktype") in _NO_ITEM:
        return None, _NO_ITEM[snak["snaktype"]]
    value = snak.get("datavalue")
    inner = value.get("value") if isinstance(value, Mapping) else None
    object_id = inner.get("id") if isinstance(inner, Mapping) else None
    if isinstance(object_id, str) and _ID.fullmatch(object_id):
        return object_id, ""
    return None, "a literal" if not isinstance(inner, Mapping) else "another resource"
