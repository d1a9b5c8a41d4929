"""Downloads that break off on either side, and files that are not the expected ones."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.sandbox.dumps import compress, truthy_lines
from longtail.sandbox.services import TRUTHY
from longtail.sandbox.world import World
from longtail.transfer.client import HttpClient
from longtail.transfer.downloads import download_dump
from longtail.transfer.http import RetryPolicy
from tests import faults
from tests.faults import FaultyServer
from tests.synced import renames_on_disk

PLAIN = f"{TRUTHY}"  # several pieces, so that a fault cuts it in the middle


def _part(target: Path) -> Path:
    return target.parent / ".parts" / target.name


@pytest.fixture(scope="module")
def large_world() -> World:
    return World(seed=4, facts_per_relation=300)


@pytest.fixture(scope="module")
def whole(large_world: World) -> bytes:
    return b"".join(compress(truthy_lines(large_world), ""))


def test_a_download_resumes_where_it_broke_off(large_world, whole, client, log, tmp_path, caplog) -> None:
    target = tmp_path / "dumps" / "truthy.nt"
    assert len(whole) > 2_000_000
    with FaultyServer(large_world) as server:
        server.faults.add(
            PLAIN, faults.cut_off(), faults.server_error(503), faults.closed(), faults.cut_off(0.3)
        )
        with caplog.at_level(logging.WARNING):
            assert download_dump(client, server.base_url + PLAIN, target, log) == target
        sent = [one for one in server.requests if one.path == PLAIN]
    assert target.read_bytes() == whole
    assert len(sent) == 5
    assert not list(_part(target).parent.iterdir())


def test_the_next_run_uses_the_part_that_came_before_the_server_failed(
    large_world, whole, client, log, tmp_path, caplog
) -> None:
    target = tmp_path / "dumps" / "truthy.nt"
    with FaultyServer(large_world) as server:
        url = server.base_url + PLAIN
        port = int(server.base_url.rsplit(":", 1)[1])
        server.faults.add(PLAIN, faults.cut_off(), *[faults.closed()] * 10)
        with pytest.raises(SourceError, match=r"[\d,]+ bytes are kept, to resume from"):
            download_dump(client, url, target, log)
    assert not target.exists()
    kept = _part(target).stat().st_size
    assert 0 < kept < len(whole)
    with FaultyServer(large_world, port), caplog.at_level(logging.INFO):
        download_dump(client, url, target, log)
    assert f"{kept:,} bytes are there already, resuming after them" in caplog.text
    assert target.read_bytes() == whole


class _Scripted(BaseHTTPRequestHandler):
    """Sends `answers` in turn: status, headers and body; `asked` has the range and the condition of each request."""

    answers: list[tuple[int, dict[str, str], bytes]]
    asked: list[tuple[str | None, str | None]]

    def do_GET(self) -> None:
        if not self.path.endswith("file.bz2"):
            self.send_error(404)
            return
        self.asked.append((self.headers.get("Range"), self.headers.get("If-Range")))
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def _scripted(answers: list[tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    """The address of a file, for which a server sends `answers`."""
    _Scripted.answers, _Scripted.asked = answers, []
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Scripted)
    threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}/a/file.bz2"
    finally:
        http.shutdown()
        http.server_close()


BODY = bytes(range(256)) * 4_000
KEPT = 300_000
STRONG = {"ETag": '"strong"', "Last-Modified": "Fri, 20 Nov 2026 08:00:00 GMT"}
RESUMED, ANEW = (f"bytes={KEPT}-", '"strong"'), (None, None)


def _ranged(first: int, last: int, total: object = len(BODY)) -> dict[str, str]:
    return STRONG | {"Content-Range": f"bytes {first}-{last}/{total}"}


@pytest.mark.parametrize(
    ("first", "then", "asked"),
    [
        (STRONG, [(206, _ranged(KEPT, len(BODY) - 1), BODY[KEPT:])], [RESUMED]),
        (STRONG, [(206, _ranged(KEPT + 1, len(BODY) - 1), BODY[KEPT + 1 :])], [RESUMED, ANEW]),
        (STRONG, [(206, _ranged(KEPT, len(BODY) - 1, "x"), BODY[KEPT:])], [RESUMED, ANEW]),
        (STRONG, [(206, STRONG, BODY[KEPT:])], [RESUMED, ANEW]),
        (STRONG, [(206, _ranged(0, len(BODY) - 1), BODY)], [RESUMED]),
        (  # less than was asked for, as a server may send
            STRONG,
            [(206, _ranged(KEPT, KEPT + 9, len(BODY)), BODY[KEPT : KEPT + 10])],
            [RESUMED, (f"bytes={KEPT + 10}-", '"strong"')],
        ),
        (STRONG, [(416, {"Content-Range": f"bytes */{KEPT + 1}"}, b"")], [RESUMED, ANEW]),
        (STRONG, [(200, STRONG, BODY)], [RESUMED]),
        ({"ETag": 'W/"weak"'}, [], [ANEW]),
        ({}, [], [ANEW]),
        ({"Last-Modified": "now"}, [(206, _ranged(KEPT, len(BODY) - 1), BODY[KEPT:])], [(RESUMED[0], "now")]),
    ],
)
def test_only_the_range_that_was_asked_for_is_added(
    client, log, tmp_path, first: dict[str, str], then: list[Any], asked: list[tuple[str | None, str | None]]
) -> None:
    cut = (200, first | {"Content-Length": str(len(BODY))}, BODY[:300_000])
    rest = (206, _ranged(KEPT + 10, len(BODY) - 1), BODY[KEPT + 10 :])
    last = rest if asked[-1][0] == f"bytes={KEPT + 10}-" else (200, STRONG, BODY)
    with _scripted([cut, *then, last]) as url:
        assert download_dump(client, url, tmp_path / "file.bz2", log).read_bytes() == BODY
    assert _Scripted.asked == [ANEW, *asked]


def test_a_part_of_another_address_is_not_resumed(client, log, tmp_path) -> None:
    part = _part(tmp_path / "file.bz2")
    part.parent.mkdir()
    part.write_bytes(bytes(KEPT))
    with _scripted([(200, STRONG, BODY)]) as url:
        state = {"url": url.replace("/a/", "/b/"), "validator": '"strong"'}
        part.with_name("file.bz2.json").write_text(json.dumps(state))
        assert download_dump(client, url, tmp_path / "file.bz2", log).read_bytes() == BODY
    assert _Scripted.asked == [ANEW]


def test_a_part_that_was_whole_when_its_run_ended_is_not_sent_again(client, log, tmp_path) -> None:
    part = _part(tmp_path / "file.bz2")
    part.parent.mkdir()
    part.write_bytes(BODY)
    whole = [(416, {"Content-Range": f"bytes */{len(BODY)}"}, b"")]
    with _scripted(whole) as url, renames_on_disk() as names:
        part.with_name("file.bz2.json").write_text(json.dumps({"url": url, "validator": '"strong"'}))
        assert download_dump(client, url, tmp_path / "file.bz2", log).read_bytes() == BODY
    assert names == ["file.bz2"]


class _Dripping(_Scripted):
    """Sends a little more than a quarter of a megabyte per request, and then single bytes slowly."""

    body = bytes(1 << 24)
    requests: list[str | None]

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.requests.append(asked)
        at = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("ETag", '"strong"')
        self.send_header("Content-Length", str(len(self.body) - at))
        if asked:
            self.send_header("Content-Range", f"bytes {at}-{len(self.body) - 1}/{len(self.body)}")
        self.end_headers()
        self.wfile.write(self.body[at : at + self.most])
        with contextlib.suppress(OSError):
            for _ in range(60):
                time.sleep(0.05)
                self.wfile.write(b"x")

    most = 300_000


def test_a_very_slow_server_does_not_hold_a_download_for_days(log, tmp_path, fake_time) -> None:
    _Dripping.requests = []
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Dripping)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
    url, target = f"http://127.0.0.1:{http.server_address[1]}/a/file.bz2", tmp_path / "dumps" / "file.bz2"
    policy = RetryPolicy(attempts=2, read_s=6, stretch_s=0.4, stretch=1 << 20)
    said = r"did not answer in time \(fewer than 1,048,576 bytes in 0.4 s\)"
    try:
        with (
            HttpClient(policy=policy, clock=fake_time.clock()) as client,
            pytest.raises(SourceError, match=said),
        ):
            download_dump(client, url, target, log)
    finally:
        http.shutdown()
        http.server_close()
    assert len(_Dripping.requests) == 2 * 4
    assert not target.exists()


def test_a_process_that_waits_for_another_download_logs_it(
    world, server, client, log, tmp_path, caplog
) -> None:
    target = tmp_path / "dump.xml"
    _part(target).parent.mkdir()
    holder = os.open(_part(target).parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(download_dump, client, server.base_url + PLAIN, target, log)
        while not any("waiting for it" in message for message in caplog.messages) and not waiting.done():
            time.sleep(0.01)
        assert not waiting.done()
        os.close(holder)
        assert waiting.result(30) == target
