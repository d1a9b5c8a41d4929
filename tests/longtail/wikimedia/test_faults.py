"""Failing services over real HTTP: which requests are repeated, what ends a run, and its message.

Single faults of the client, limits between processes and the cache are in the tests of `transfer`, slices of the query
service in `test_statements`, killed stages and full disks in `test_faults_stages`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.errors import SourceError
from longtail.relations.relation import by_name, relation_set
from longtail.threads import map_in_order
from longtail.transfer.client import FinishedAnswers, HttpClient
from longtail.transfer.http import RetryPolicy
from longtail.transfer.limits import ENTITY_API
from longtail.wikimedia.articles import fetch_page_views, resolve_titles
from longtail.wikimedia.wikibase import fetch_entities, fetch_statements
from tests import faults
from tests.faults import Fault

API = "/w/api.php"
ROUTE = "/api/rest_v1/metrics/pageviews/per-article"
PARAMS = {"action": "wbgetentities", "format": "json", "ids": "Q9000000001"}
TOO_SLOW = faults.server_error(500, b"java.util.concurrent.TimeoutException: Query timeout limit reached")


def _too_many(status: int, retry_after: str | None) -> Fault:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Fault(status, b"Please slow down", headers=headers)


@pytest.fixture
def new_client(tmp_path: Path, fake_time) -> Callable[..., HttpClient]:
    """A client as in a process of the instance; the limits apply as for another host."""

    def make(**more: object) -> HttpClient:
        return HttpClient(clock=fake_time.clock(), limits=tmp_path / "limits", limits_loopback=True, **more)

    return make


def test_waiting_threads_stop_when_a_long_pause_begins(server, new_client, fake_time) -> None:
    server.faults.add(API, faults.too_many("86400"), times=9)
    url = server.base_url + API
    with new_client() as client, pytest.raises(SourceError, match="86400 s: run again after that"):
        list(map_in_order(lambda _: client.get_json(ENTITY_API, url, PARAMS), range(9), 3))
    assert len(server.requests) <= 3
    assert sum(fake_time.sleeps) < 60


def test_a_huge_answer_is_not_read_completely(server, client, fake_time, log) -> None:
    body = b'{"entities": {"Q1": "' + b"x" * 200_000 + b'"}}'
    server.faults.add(API, Fault(200, body, "application/json"), times=9)
    policy = RetryPolicy(largest_answer=100_000)
    with HttpClient(policy=policy, clock=fake_time.clock()) as small:
        with pytest.raises(SourceError, match="more than 100,000 bytes; the rest was not read"):
            small.get_json(ENTITY_API, server.base_url + API, PARAMS)
        assert len(server.requests) == 1
        server.faults.add("/sparql", Fault(200, body, "application/sparql-results+json"))
        occupations = by_name(relation_set("popqa"))["occupation"]
        found, _ = fetch_statements(small, f"{server.base_url}/sparql", occupations, log)
    whole, _ = fetch_statements(client, f"{server.base_url}/sparql", occupations, log)
    assert found == whole  # divided into slices instead


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/plain", "", "application/octet-stream"])
def test_json_with_another_content_type_is_read(server, client, kind: str) -> None:
    server.faults.add(API, Fault(200, b'\xef\xbb\xbf{"entities": {}}', kind))
    assert client.get_json(ENTITY_API, server.base_url + API, PARAMS) == {"entities": {}}


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"7", b'"text"', b'{"entities": 3}', b"[" * 100_000, b'{"entities": {"Q1": NaN}}'],
)
def test_useless_json_is_one_clear_error(server, client, log, body: bytes) -> None:
    server.faults.add(API, Fault(200, body, "application/json"), times=9)
    if body.endswith(b"NaN}}"):
        found, rejected, _ = fetch_entities(client, server.base_url + API, ["Q1"], log)
        assert (found, [row.reason for row in rejected]) == ([], ["no such entity"])
        return
    with pytest.raises(SourceError, match=r"JSON") as caught:
        fetch_entities(client, server.base_url + API, ["Q1"], log)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_terms_are_cleaned_before_storage_and_their_originals_kept(server, client, log) -> None:
    """Escaped and raw control characters, lone surrogates, emoji, right-to-left marks, far too long terms."""
    raw = (
        '{"entities": {"Q1": {"id": "Q1", "labels": {"en": {"value": "A\\u0000d\\u001ba"}},'
        ' "aliases": {"en": [{"value": "tab\there"}, {"value": "\\ud83d\\ude80 \\ud800!"},'
        ' {"value": "\\u200fנועה"}, {"value": "ALIAS"}, {"value": "\\u0001"}]},'
        ' "descriptions": {"en": {"value": "two\nlines"}},'
        ' "sitelinks": {"enwiki": {"title": "Ada\\u0007 L"}}}}}'
    ).replace("ALIAS", "y" * 3_000)
    server.faults.add(API, Fault(200, raw.encode(), "application/json"))
    [entity], rejected, _ = fetch_entities(client, server.base_url + API, ["Q1"], log)
    assert (entity.label, entity.description, entity.article_title) == ("Ada", "two lines", "Ada L")
    assert set(entity.aliases) == {"tab here", "🚀 !", "\u200fנועה", "y" * 250}
    originals = {row.raw for row in rejected}
    assert {"A\0d\x1ba", "tab\there", "🚀 \ud800!", "two\nlines", "Ada\7 L", "\x01", "y" * 3_000} <= originals
    assert all(" kept, " in row.reason for row in rejected)


@pytest.mark.parametrize("code", ["maxlag", "ratelimited", "readonly"])
def test_a_request_to_a_busy_api_is_repeated(server, client, fake_time, log, code: str) -> None:
    """The API reports this in an answer with status 200, with its own Retry-After: for entities and for titles."""
    busy = json.dumps({"error": {"code": code, "info": "Waiting for 10.0.0.1: 6 seconds lagged"}}).encode()
    fault = Fault(200, busy, "application/json", {"Retry-After": "6"})
    server.faults.add(API, fault, times=2)
    assert len(fetch_entities(client, server.base_url + API, ["Q9000000001"], log)[0]) == 1
    server.faults.add("/en/w/api.php", fault)
    assert resolve_titles(client, f"{server.base_url}/en/w/api.php", ["actor"], log)[0].exists
    assert fake_time.sleeps == [6.0, 6.0, 6.0]
    server.faults.add(API, fault, times=9)
    with pytest.raises(SourceError, match=rf"busy \({code}\); asked 4 times"):
        fetch_entities(client, server.base_url + API, ["Q9000000001"], log)


ANY = [
    faults.too_many("1"),
    faults.reset(),
    faults.broken_json(0.7),
    faults.web_page(),
    _too_many(503, "2"),
    faults.cut_off(0.3),
    faults.too_many(),
    faults.closed(),
    faults.server_error(502, b""),
    faults.broken_json(0.0),
]


def test_one_fault_of_each_kind_loses_no_row_of_any_service(world, server, patient_client, log) -> None:
    client, base = patient_client, server.base_url
    ids = [entity.entity_id for entity in world.entities()]
    titles = [entity.article_title for entity in world.entities() if entity.article_title][:60]
    entities, *_ = fetch_entities(client, base + API, ids, log)
    resolved = resolve_titles(client, f"{base}/en/w/api.php", titles, log, with_redirects=True)
    views = fetch_page_views(client, base + ROUTE, titles, ["2026-03"], log)
    statements = fetch_statements(client, f"{base}/sparql", by_name(relation_set("popqa"))["genre"], log)
    for prefix in (API, "/en/", ROUTE, "/sparql"):
        server.faults.add(prefix, *ANY)
    assert fetch_entities(client, base + API, ids, log)[0] == entities
    assert resolve_titles(client, f"{base}/en/w/api.php", titles, log, with_redirects=True) == resolved
    assert fetch_page_views(client, base + ROUTE, titles, ["2026-03"], log) == views
    assert (
        fetch_statements(client, f"{base}/sparql", by_name(relation_set("popqa"))["genre"], log) == statements
    )


def test_what_an_earlier_run_was_answered_is_not_asked_again(server, fake_time, tmp_path, log) -> None:
    url, relation = f"{server.base_url}/sparql", by_name(relation_set("popqa"))["occupation"]

    def run() -> object:
        answers = FinishedAnswers(tmp_path, "stage")
        with HttpClient(policy=RetryPolicy(attempts=2), clock=fake_time.clock(), finished=answers) as client:
            return fetch_statements(client, url, relation, log)[0]

    whole = run()
    assert (run(), len(server.requests)) == (whole, 1)
