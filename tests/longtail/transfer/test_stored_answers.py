"""The cache of responses over real HTTP: which requests are repeated, which are not, and what damage does."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest

from longtail.sandbox.replies import MAX_AGE_S
from longtail.storage.home import PROJECT_ROOT
from longtail.transfer.client import HttpClient
from longtail.transfer.http import RetryPolicy
from longtail.transfer.limits import ENTITY_API, PAGE_VIEW_API
from longtail.transfer.stored_answers import ResponseCache, StoredResponse
from tests import faults
from tests.faults import Fault

ROUTE = "/api/rest_v1/metrics/pageviews/per-article/en.wikipedia/all-access/user"
SPAN = "monthly/2026030100/2026033100"
API = "/w/api.php"
PARAMS = {"action": "wbgetentities", "format": "json", "ids": "Q9000000001"}


@pytest.fixture
def new_client(tmp_path: Path, fake_time) -> Callable[[], HttpClient]:
    """A client of a later run: it shares only the folder."""

    def make() -> HttpClient:
        return HttpClient(policy=RetryPolicy(attempts=4), clock=fake_time.clock(), cache=tmp_path / "http")

    return make


def _views(client: HttpClient, server, title: str = "actor") -> object:
    url = f"{server.base_url}{ROUTE}/{title}/{SPAN}"
    return client.get_json(PAGE_VIEW_API, url, missing_ok=True)


def test_fresh_answers_need_no_request_and_stale_ones_are_revalidated(server, new_client, fake_time) -> None:
    with new_client() as client:
        first = _views(client, server)
    for _ in range(3):
        with new_client() as client:
            assert _views(client, server) == first
            assert (client.traffic.sent, client.traffic.from_cache) == (0, 1)
    assert [request.status for request in server.requests] == [200]
    fake_time.seconds += MAX_AGE_S + 1
    with new_client() as client:
        assert _views(client, server) == first
        assert _views(client, server) == first  # a 304 makes it fresh again
        assert (client.traffic.sent, client.traffic.not_modified, client.traffic.from_cache) == (1, 1, 1)
    assert [request.status for request in server.requests] == [200, 304]


def test_a_changed_document_replaces_the_old_one(server, new_client) -> None:
    old = Fault(200, b'{"entities": {}}', "application/json", {"ETag": '"old"'})
    server.faults.add(API, old)
    with new_client() as client:
        assert client.get_json(ENTITY_API, server.base_url + API, PARAMS) == {"entities": {}}
        new = client.get_json(ENTITY_API, server.base_url + API, PARAMS)
        assert new["entities"]["Q9000000001"]["labels"]
        assert client.get_json(ENTITY_API, server.base_url + API, PARAMS) == new
    assert [request.status for request in server.requests] == [200, 200, 304]


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        ({}, [200, 200]),
        ({"Last-Modified": "Thu, 01 Oct 2026 00:00:00 GMT"}, [200, 304]),
        ({"Last-Modified": "Thu, 01 Oct 2015 00:00:00 GMT"}, [200, 200]),
        ({"Cache-Control": "max-age=60"}, [200]),
        ({"Cache-Control": "public, Max-Age=60, must-revalidate"}, [200]),
        ({"Cache-Control": "max-age=60", "Age": "59"}, [200]),
        ({"Cache-Control": "max-age=60", "Age": "60"}, [200, 200]),
        ({"Cache-Control": "max-age=60, no-cache"}, [200, 200]),
        ({"Cache-Control": "no-store, max-age=60", "ETag": '"e"'}, [200, 200]),
        ({"Cache-Control": "max-age=60", "Vary": "*"}, [200, 200]),
        ({"Cache-Control": "max-age=much", "Age": "old"}, [200, 200]),
        ({"Cache-Control": "max-age=-5"}, [200, 200]),
        ({"Expires": formatdate(9e9, usegmt=True), "Date": formatdate(9e9 - 60, usegmt=True)}, [200]),
        ({"Expires": "0"}, [200, 200]),
    ],
)
def test_headers_decide(server, new_client, headers: dict[str, str], statuses: list[int]) -> None:
    whole = json.dumps({"entities": {"Q1": {}}}).encode()
    server.faults.add(API, Fault(200, whole, "application/json", headers))
    with new_client() as client:
        for _ in range(2):
            assert client.get_json(ENTITY_API, server.base_url + API, PARAMS)["entities"]
    assert [request.status for request in server.requests] == statuses


def test_a_kept_answer_with_raw_control_characters_is_read_as_it_was_at_first(server, new_client) -> None:
    whole = b'{"entities": {"Q1": {"label": "a\tb\x01"}}}'
    server.faults.add(API, Fault(200, whole, "application/json", {"Cache-Control": "max-age=60"}))
    with new_client() as client:
        first = client.get_json(ENTITY_API, server.base_url + API, PARAMS)
        assert first == {"entities": {"Q1": {"label": "a\tb\x01"}}}
        assert client.get_json(ENTITY_API, server.base_url + API, PARAMS) == first
    assert len(server.requests) == 1


def test_a_cached_answer_that_is_refused_is_requested_unconditionally(server, new_client) -> None:
    with new_client() as client:
        client.get_json(ENTITY_API, server.base_url + API, PARAMS)
        refused = iter(["is no use", "is no use"])
        client.get_json(ENTITY_API, server.base_url + API, PARAMS, accept=lambda _: next(refused, None))
    # cached but stale: a refused 304, then a refused whole answer, then a good one
    assert [request.status for request in server.requests] == [200, 304, 200, 200]


def test_a_304_may_leave_out_the_validators_that_still_hold() -> None:
    kept = StoredResponse(b"", '"e"', "Thu, 01 Oct 2015 00:00:00 GMT", fresh_until=0)
    assert kept.revalidate({"etag": '"f"', "Age": "5"}) == {
        "ETag": '"f"',
        "Age": "5",
        "Last-Modified": "Thu, 01 Oct 2015 00:00:00 GMT",
    }


@pytest.mark.parametrize(
    "fault",
    [
        Fault(200, b"<html>Sign in</html>", headers={"ETag": '"x"', "Cache-Control": "max-age=999"}),
        Fault(200, b'{"entities": ', "application/json", {"ETag": '"x"', "Cache-Control": "max-age=999"}),
        Fault(404, b'{"status": 404}', "application/problem+json", {"Cache-Control": "max-age=999"}),
        faults.cut_off(),
        faults.server_error(503),
    ],
)
def test_failures_are_not_cached(server, new_client, fault: Fault) -> None:
    """Above all, views that are not counted yet: the month may be there tomorrow."""
    server.faults.add("/api", fault)
    with new_client() as client:
        _views(client, server)
        assert _views(client, server)["items"]
    assert server.requests[-1].status == 200


def test_a_damaged_entry_is_dropped_and_a_damaged_file_replaced(server, new_client, tmp_path, caplog) -> None:
    path = tmp_path / "http" / "responses.sqlite"
    with new_client() as client:
        whole = _views(client, server)
    with sqlite3.connect(path) as database:
        [(data,)] = database.execute("SELECT data FROM blobs").fetchall()
        database.execute("UPDATE blobs SET data = ?", (data[:-9] + b"\0" * 9,))
    database.close()
    with new_client() as client:
        assert _views(client, server) == whole
    assert "a damaged entry was dropped" in caplog.text
    for damage in (b"no database", path.read_bytes()[:5_000], b""):
        path.write_bytes(damage)
        with new_client() as client:
            assert _views(client, server) == whole
            assert _views(client, server) == whole
            assert client.traffic.from_cache == 1
    assert len(server.requests) == 2 + 3


def test_the_checksum_of_another_entry_is_refused(tmp_path) -> None:
    cache = ResponseCache(tmp_path, lambda: 1_000.0)
    for name in "ab":
        cache.put(name, {"ETag": name}, name.encode())
    with sqlite3.connect(tmp_path / "responses.sqlite") as database:
        database.execute(
            "UPDATE blobs SET data = (SELECT max(data) FROM blobs), checksum = (SELECT max(checksum) FROM blobs)"
        )
    database.close()
    assert sum(cache.get(name) is not None for name in "ab") <= 1


def test_the_cache_stays_within_its_limit_and_keeps_the_latest_used(tmp_path) -> None:
    now = [1_000.0]
    cache = ResponseCache(tmp_path, lambda: now[0], max_bytes=40_000)
    for number in range(400):
        now[0] -= 1  # a clock that is set back
        cache.put(f"http://host/{number}", {"ETag": "e"}, os.urandom(500))
    cache.put("http://host/huge", {"ETag": "e"}, os.urandom(30_000))
    kept = [number for number in range(400) if cache.get(f"http://host/{number}")]
    assert cache.get("http://host/huge") is None
    assert 40 <= len(kept) <= 40_000 / 500 + 32
    assert kept == list(range(400 - len(kept), 400))
    cache.close()
    assert (tmp_path / "responses.sqlite").stat().st_size < 200_000


def test_a_clock_set_back_keeps_no_answer_fresh_for_ever() -> None:
    kept = StoredResponse(b"", None, None, fresh_until=4e9)
    assert not kept.is_fresh(1e9)
    assert kept.is_fresh(4e9 - 10)


def test_neither_the_operator_nor_the_request_is_stored(server, new_client, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LONGTAIL_CONTACT", "mailto:private.person@example.org")
    with new_client() as client:
        _views(client, server)
    for path in (tmp_path / "http").iterdir():
        content = path.read_bytes()
        assert b"private.person" not in content
        assert b"/api/rest_v1" not in content
        assert b"longtail/" not in content


WRITE = """
import itertools, sys
from pathlib import Path
from longtail.transfer.stored_answers import ResponseCache
cache = ResponseCache(Path(sys.argv[1]), lambda: 1_000.0)
for number in itertools.count():
    name = f"{sys.argv[2]}{number}"
    cache.put(name, {"ETag": name}, (name * 3_000).encode())
    print(name, flush=True)
"""


def test_processes_share_it_and_kill_9_leaves_whole_entries(tmp_path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(tmp_path), name],
            cwd=PROJECT_ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    written: list[str] = []
    for process in running:
        assert process.stdout is not None
        written += [process.stdout.readline().strip() for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    cache = ResponseCache(tmp_path, lambda: 1_000.0)
    for name in written:
        kept = cache.get(name)
        assert kept is not None
        assert (kept.etag, kept.body) == (name, (name * 3_000).encode())
