"""The client against a real server with the faults of real services."""

from __future__ import annotations

import socket
from itertools import pairwise
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.threads import map_in_order
from longtail.transfer.client import HttpClient
from longtail.transfer.client import Request as Asked
from longtail.transfer.http import RetryPolicy, SlowAnswerError
from longtail.transfer.limits import ENTITY_API, PAGE_VIEW_API, QUERY_SERVICE, Service
from tests import faults
from tests.faults import Fault, FaultyServer

API = "/w/api.php"
PARAMS = {"action": "wbgetentities", "format": "json", "ids": "Q9000000001"}

PASSING = {
    "429": faults.too_many(),
    "500": faults.server_error(500),
    "502": faults.server_error(502, b""),
    "503": faults.server_error(503),
    "web page": faults.web_page(),
    "broken JSON": faults.broken_json(),
    "empty": faults.broken_json(keep=0),
    "cut off": faults.cut_off(),
    "closed": faults.closed(),
    "reset": faults.reset(),
}
SAYS = {
    "429": "429 (Too many requests)",
    "500": "answered 500",
    "502": "answered 502",
    "503": "answered 503",
    "web page": "web page",
    "broken JSON": "broken JSON",
    "empty": "broken JSON of 0 bytes",
    "cut off": "could not be reached",
    "closed": "could not be reached",
    "reset": "could not be reached",
}


@pytest.mark.parametrize("name", PASSING)
def test_a_lasting_fault_costs_growing_pauses_and_is_one_clear_error(
    server: FaultyServer, client: HttpClient, fake_time, name: str
) -> None:
    server.faults.add(API, PASSING[name], times=50)
    with pytest.raises(SourceError) as caught:
        client.get_json(ENTITY_API, server.base_url + API, PARAMS)
    message = str(caught.value)
    assert "\n" not in message
    for part in (ENTITY_API.name, server.base_url + API, SAYS[name], "4 times"):
        assert part in message
    assert len(server.requests) == 4
    pauses = [seconds / (5 if name == "429" else 1) for seconds in fake_time.sleeps]
    assert len(pauses) == 3
    assert 0.5 <= pauses[0] <= 1.0
    assert 1.0 <= pauses[1] <= 2.0


def test_a_service_that_is_down_is_one_clear_error(client: HttpClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/sparql"
    with pytest.raises(SourceError, match=r"SPARQL query service at .* could not be reached .*refused"):
        client.post_json(QUERY_SERVICE, url, {"query": "ASK {}"})


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_a_refused_request_is_not_repeated(server: FaultyServer, client: HttpClient, status: int) -> None:
    server.faults.add(API, Fault(status, b"no"), times=9)
    with pytest.raises(SourceError, match=rf"answered {status} \(no\)"):
        client.get_json(ENTITY_API, server.base_url + API, PARAMS)
    assert len(server.requests) == 1


def test_a_time_out_is_a_slow_answer_error(server: FaultyServer, fake_time) -> None:
    server.faults.add(API, faults.slow(0.6), times=9)
    policy = RetryPolicy(attempts=2, read_s=0.15)
    with (
        HttpClient(policy=policy, clock=fake_time.clock()) as client,
        pytest.raises(SlowAnswerError) as caught,
    ):
        client.get_json(ENTITY_API, server.base_url + API, PARAMS)
    assert "did not answer in time" in str(caught.value)


def test_a_404_is_missing_only_where_the_service_says_so_itself(
    server: FaultyServer, client: HttpClient
) -> None:
    url = f"{server.base_url}/api/rest_v1/metrics/pageviews/per-article/en.wikipedia/all-access/user/Nobody"
    assert client.get_json(PAGE_VIEW_API, f"{url}/monthly/2026090100/2026093000", missing_ok=True) is None
    with pytest.raises(SourceError, match="answered 404"):
        client.get_json(PAGE_VIEW_API, f"{server.base_url}/elsewhere", missing_ok=True)


def test_without_a_contact_no_request_leaves_this_machine(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise AssertionError("a request was about to be sent")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for contact in (None, "", "   "):
        if contact is not None:
            monkeypatch.setenv("LONGTAIL_CONTACT", contact)
        with pytest.raises(SourceError, match="LONGTAIL_CONTACT"):
            client.get_json(ENTITY_API, "https://www.wikidata.org/w/api.php", PARAMS)


def test_the_user_agent_names_the_operator(
    server: FaultyServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_CONTACT", "mailto:jürgen@example.org\r\nX-Evil: 1")
    client.get_json(ENTITY_API, server.base_url + API, PARAMS)
    agent = server.requests[-1].user_agent
    assert agent.startswith("longtail/")
    assert "mailto:j" in agent
    assert "@example.org" in agent
    assert "\n" not in agent


def test_requests_to_this_machine_use_no_proxy(
    server: FaultyServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert client.get_json(ENTITY_API, server.base_url + API, PARAMS)["success"] == 1


def test_a_redirect_does_not_lead_off_this_machine(server: FaultyServer, client: HttpClient) -> None:
    server.faults.add(API, Fault(302, b"", headers={"Location": "http://example.org/"}))
    with pytest.raises(SourceError, match="answered 302"):
        client.get_json(ENTITY_API, server.base_url + API, PARAMS)


@pytest.mark.parametrize(("service", "most"), [(QUERY_SERVICE, 1), (ENTITY_API, 3), (PAGE_VIEW_API, 3)])
def test_no_more_requests_at_once_than_allowed(server: FaultyServer, service: Service, most: int) -> None:
    server.faults.add(API, faults.slow(0.03), times=12)
    with HttpClient() as client:

        def ask(_: int) -> object:
            return client.get_json(service, server.base_url + API, PARAMS)

        assert len(list(map_in_order(ask, range(12), threads=8))) == 12
    at_once = faults.most_at_once(list(server.requests))
    assert min(most, 2) <= at_once <= most


def test_a_shared_client_keeps_one_pace_for_all_threads(fake_time) -> None:
    """The operator's quota, without a network: the requests that the limiter allows to other hosts."""
    client = HttpClient(clock=fake_time.clock())
    limiter = client.limits.limiter(ENTITY_API, "https://www.wikidata.org/w/api.php")
    assert limiter is client.limits.limiter(PAGE_VIEW_API, "https://wikimedia.org/api")
    assert limiter is not client.limits.limiter(ENTITY_API, "http://127.0.0.1:1/")
    starts = []
    for _ in range(201):
        with limiter.slot():
            starts.append(fake_time.seconds)
    assert starts[200] - starts[0] >= 60 - 1e-6
    assert all(later - earlier >= ENTITY_API.interval_s - 1e-9 for earlier, later in pairwise(starts))


def test_each_request_has_a_key_of_its_own_in_any_order_of_its_values() -> None:
    values = {"ids": "Q1", "format": "json"}
    requests = [
        ("GET", "http://a/"), ("POST", "http://a/"), ("GET", "http://b/"),
        ("GET", "http://a/", values), ("GET", "http://a/", {**values, "ids": "Q2"}),
        ("POST", "http://a/", None, values), ("POST", "http://a/", None, {**values, "ids": "Q2"}),
        ("POST", "http://a/", None, None, values), ("POST", "http://a/", None, None, {**values, "ids": "Q2"}),
    ]  # fmt: skip

    def key(*parts: Any) -> str:
        return Asked(ENTITY_API, *parts).key

    assert len({key(*request) for request in requests}) == len(requests)
    turned = dict(reversed(values.items()))
    assert key("GET", "http://a/", turned) == key(*requests[3])
    assert key("POST", "http://a/", None, turned) == key(*requests[5])
    assert key("POST", "http://a/", None, None, turned) == key(*requests[7])
