"""Statements and site link counts by SPARQL, compared with the sandbox's world."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.relations.relation import by_name, relation_set
from longtail.sandbox.world import World
from longtail.wikimedia.wikibase import DIRECT, Slice, fetch_sitelinks, fetch_statements, item_id, sort_ids
from tests import faults
from tests.faults import FaultyServer

TOO_SLOW = faults.server_error(500, b"java.util.concurrent.TimeoutException: Query timeout limit reached")
WD = "http://www.wikidata.org/entity/"
OCCUPATION = by_name(relation_set("popqa"))["occupation"]


def _expected(world: World, property_id: str) -> list[tuple[str, str, str]]:
    return sorted(
        (triple.subject_id, triple.property_id, triple.object_id)
        for triple in world.triples()
        if triple.property_id == property_id
    )


@pytest.mark.parametrize("relation", relation_set("popqa"), ids=lambda relation: relation.name)
def test_statements_equal_the_world(world, server, client, log, relation) -> None:
    statements, rejected = fetch_statements(client, f"{server.base_url}/sparql", relation, log)
    found = [(s.subject_id, s.property_id, s.object_id) for s in statements]
    assert found == _expected(world, relation.property_id)
    assert rejected == []


@pytest.mark.parametrize("n_slow", range(1, 9))
def test_time_outs_lose_and_double_nothing(world, server, client, log, n_slow: int) -> None:
    """The relation is divided as deeply as needed, and the slices give the same as the whole."""
    pattern = [TOO_SLOW, *([faults.slow(0)] if n_slow % 2 else []), *([TOO_SLOW] * (n_slow - 1))]
    server.faults.add("/sparql", *pattern)
    statements, _ = fetch_statements(client, f"{server.base_url}/sparql", OCCUPATION, log)
    assert [(s.subject_id, s.property_id, s.object_id) for s in statements] == _expected(world, "P106")
    assert len(server.requests) > n_slow


def test_a_time_out_inside_an_answer_is_recognised(world, server, client, log) -> None:
    body = b'{"head": {"vars": ["subject"]}, "results": {"bindings": [ java.util.concurrent.TimeoutException'
    server.faults.add("/sparql", faults.Fault(200, body, "application/sparql-results+json"))
    statements, _ = fetch_statements(client, f"{server.base_url}/sparql", OCCUPATION, log)
    assert len(statements) == len(_expected(world, "P106"))


def test_a_service_that_is_always_too_slow_ends_the_fetch(server, client, log, fake_time) -> None:
    server.faults.add("/sparql", TOO_SLOW, times=1_000)
    with pytest.raises(SourceError, match="even for the smallest slice of http"):
        fetch_statements(client, f"{server.base_url}/sparql", OCCUPATION, log)
    assert len(server.requests) <= 26


def test_temporary_faults_between_slices(world, server, client, log) -> None:
    faulty = [
        faults.too_many("3"),
        TOO_SLOW,
        faults.web_page(),
        faults.closed(),
        TOO_SLOW,
        faults.broken_json(),
    ]
    server.faults.add("/sparql", *faulty)
    statements, _ = fetch_statements(client, f"{server.base_url}/sparql", OCCUPATION, log)
    assert len(statements) == len(_expected(world, "P106"))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"subject": {"type": "uri", "value": "x"}}', "a SPARQL result without 'object'"),
        ('{"subject": {"value": "x"}, "object": {"type": "uri", "value": "x"}}', "without 'type'"),
        ('{"subject": 1, "object": 2}', "no SPARQL result"),
        ('{"subject": {"type": "uri", "value": 3}, "object": {"type": "uri", "value": "x"}}', "no SPARQL"),
        ("7", "no SPARQL result"),
    ],
)
def test_malformed_rows_are_one_clear_error(server, client, log, row: str, says: str) -> None:
    answer = f'{{"results": {{"bindings": [{row}]}}}}'.encode()
    server.faults.add("/sparql", *[faults.Fault(200, answer, "application/json")] * client.policy.attempts)
    with pytest.raises(SourceError, match=says) as caught:
        fetch_statements(client, f"{server.base_url}/sparql", OCCUPATION, log)
    assert "\n" not in str(caught.value)


def test_statements_whose_end_is_no_item_are_put_aside(serve_rdf, client, log) -> None:
    p106 = f"<{DIRECT}P106>"
    server = serve_rdf(
        f"<{WD}Q1> {p106} <{WD}Q2> .",
        f"<{WD}Q1> {p106} _:unknown .",
        f'<{WD}Q1> {p106} "writer"@en .',
        f"<{WD}Q1> {p106} <http://www.wikidata.org/.well-known/genid/abc> .",
        f"<{WD}Q1> {p106} <{WD}P31> .",
        f"<{WD}L5> {p106} <{WD}Q2> .",
        f"<{WD}Q01> {p106} <{WD}Q2> .",
    )
    for slow in (0, 1):
        server.faults.add("/sparql", *([TOO_SLOW] * slow))
        statements, rejected = fetch_statements(client, f"{server.base_url}/sparql", OCCUPATION, log)
        assert [(s.subject_id, s.object_id) for s in statements] == [("Q1", "Q2")]
        assert Counter(row.reason for row in rejected) == {
            "object is no item but an unknown value": 2,
            "object is no item but a literal": 1,
            "object is no item but another resource": 1,
            "subject is no item": 2,
        }


@pytest.fixture(scope="module")
def store() -> ox.Store:
    from longtail.sandbox.server import Content

    return Content(World(seed=1, facts_per_relation=40)).store()


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 10**6), max_size=12), by_object=st.booleans())
def test_any_division_into_slices_is_a_partition(store: ox.Store, cuts: list[int], by_object: bool) -> None:
    whole = Slice(f"{DIRECT}P136")

    def rows(part: Slice) -> list[tuple[str, str]]:
        return [(row["subject"].value, row["object"].value) for row in store.query(part.query())]

    parts = [whole]
    if by_object:
        parts = whole.by_object(sorted({obj for _, obj in rows(whole)}))
    for cut in cuts:
        place = cut % len(parts)
        halves = parts[place].halves()
        parts[place : place + 1] = halves or [parts[place]]
    assert Counter(row for part in parts for row in rows(part)) == Counter(rows(whole))


def test_site_link_counts_equal_the_world(world, server, client, log) -> None:
    entities = list(world.entities())
    ids = [entity.entity_id for entity in entities]
    counts = fetch_sitelinks(client, f"{server.base_url}/sparql", [*ids, "Q1"], log)
    assert counts == {entity.entity_id: entity.sitelinks for entity in entities}


def test_site_link_counts_that_are_no_numbers_stay_unknown(serve_rdf, client, log) -> None:
    server: FaultyServer = serve_rdf(
        f'<{WD}Q1> <http://wikiba.se/ontology#sitelinks> "many" .',
        f'<{WD}Q2> <http://wikiba.se/ontology#sitelinks> "0"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        f'<{WD}Q3> <http://wikiba.se/ontology#sitelinks> "-4"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    )
    counts = fetch_sitelinks(client, f"{server.base_url}/sparql", ["Q1", "Q2", "Q3", "Q4"], log)
    assert counts == {"Q2": 0}


@pytest.mark.parametrize(
    ("iri", "expected"),
    [
        (f"{WD}Q42", "Q42"),
        (f"{WD}Q9000000001", "Q9000000001"),
        (f"{WD}Q0", None),
        (f"{WD}P31", None),
        (f"{WD}Q42/x", None),
        (f"{WD}Q42> . DROP", None),
        ("Q42", None),
        ("https://example.org/Q42", None),
    ],
)
def test_item_ids(iri: str, expected: str | None) -> None:
    assert item_id(iri) == expected


def test_ids_are_ordered_by_number() -> None:
    assert sort_ids(["Q10", "Q9", "Q100", "Q9"]) == ["Q9", "Q10", "Q100"]
