"""Entities by wbgetentities: those of the world, and unusual ones."""

from __future__ import annotations

import json

import pytest

from longtail.errors import SourceError
from longtail.sandbox.dumps import literal
from longtail.wikimedia.wikibase import Entity, fetch_entities, read_entity
from tests import faults

WD = "http://www.wikidata.org/entity/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
ALIAS = "<http://www.w3.org/2004/02/skos/core#altLabel>"
NUL = chr(0)


def _ids(world) -> list[str]:
    return [entity.entity_id for entity in world.entities()]


def test_entities_equal_the_world(world, server, client, log) -> None:
    found, rejected, _ = fetch_entities(client, f"{server.base_url}/w/api.php", _ids(world), log)
    assert rejected == []
    assert [_unordered(entity) for entity in found] == [
        (e.entity_id, e.label, frozenset(e.aliases), e.description, e.article_title) for e in world.entities()
    ]
    assert len(server.requests) == -(-len(found) // 50)


def _unordered(entity: Entity) -> tuple[str, str, frozenset[str], str | None, str | None]:
    aliases = frozenset(entity.aliases)
    return entity.entity_id, entity.label, aliases, entity.description, entity.article_title


def test_an_api_error_is_reported_with_its_own_message(server, client, log) -> None:
    body = json.dumps({"error": {"code": "badtoken", "info": "Invalid token."}}).encode()
    server.faults.add("/w/api.php", faults.Fault(200, body, "application/json"))
    with pytest.raises(SourceError, match="badtoken: Invalid token"):
        fetch_entities(client, f"{server.base_url}/w/api.php", ["Q9000000001"], log)


def test_one_invalid_id_does_not_lose_its_batch(world, server, client, log) -> None:
    ids = _ids(world)[:20]
    found, rejected, _ = fetch_entities(
        client, f"{server.base_url}/w/api.php", [*ids[:7], "Qx", *ids[7:]], log
    )
    assert [entity.entity_id for entity in found] == ids
    assert [(row.row_key, row.reason) for row in rejected] == [("Qx", "no such entity")]


def test_awkward_labels(serve_rdf, client, log) -> None:
    server = serve_rdf(
        f"<{WD}Q1> {LABEL} {literal('Ada' + NUL + ' Lovelace')} .",
        f"<{WD}Q2> {LABEL} {literal(chr(0x200F) + 'נועה כהן')} .",
        f"<{WD}Q3> {LABEL} {literal('👩🏽‍🚀')} .",
        f"<{WD}Q3> {ALIAS} {literal('a' + chr(7) + 'stronaut')} .",
        f"<{WD}Q3> {ALIAS} {literal('👩🏽‍🚀')} .",
        f"<{WD}Q3> {ALIAS} {literal(' ')} .",
        f"<{WD}Q4> {LABEL} {literal('x' * 10_240)} .",
        f"<{WD}Q5> {LABEL} {literal('nur deutsch', '@de')} .",
        f"<{WD}Q6> {LABEL} {literal('everywhere', '@mul')} .",
        f"<{WD}Q7> {LABEL} {literal(NUL + chr(10))} .",
    )
    ids = [f"Q{number}" for number in range(1, 9)]
    found, rejected, _ = fetch_entities(client, f"{server.base_url}/w/api.php", ids, log)
    assert [(entity.entity_id, entity.label) for entity in found] == [
        ("Q1", "Ada Lovelace"),
        ("Q2", "\u200fנועה כהן"),
        ("Q3", "👩🏽‍🚀"),
        ("Q4", "x" * 250),
        ("Q6", "everywhere"),
    ]
    assert found[2].aliases == ("astronaut",)
    assert [(row.row_key, row.reason) for row in rejected] == [
        ("Q1 label", "label kept, control characters removed"),
        ("Q3 alias", "alias kept, control characters removed"),
        ("Q4 label", "label kept, cut from 10,240 to 250 characters"),
        ("Q5", "no English label"),
        ("Q7 label", "label kept, control characters removed"),
        ("Q7", "no English label"),
        ("Q8", "no such entity"),
    ]
    assert rejected[0].raw == "Ada" + NUL + " Lovelace"


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        {},
        {"id": "Q1", "missing": ""},
        {"id": "Q1", "labels": []},
        {"id": "Q1", "labels": {"en": []}},
        {"id": "Q1", "labels": {"en": {"value": 5}}},
        {"id": "Q1", "labels": {"en": {"language": "en", "value": "\ud800"}}},
    ],
)
def test_documents_without_a_label_are_put_aside(document: object) -> None:
    rejected: list[object] = []
    assert read_entity("Q1", document, rejected.append) is None
    assert rejected


def test_empty_mappings_written_as_lists() -> None:
    label = {"en": {"language": "en", "value": "Ada"}}
    document = {"id": "Q1", "labels": label, "aliases": [], "descriptions": [], "sitelinks": []}
    assert read_entity("Q1", document, [].append) == Entity("Q1", "Ada", (), None, None)
