"""What all HTTP clients share: Retry-After, backoff, addresses; a request ends in time, and an answer has one length."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from longtail.transfer.http import (
    Deadline,
    OverdueError,
    RetryPolicy,
    body_parts,
    deadline,
    is_loopback,
    open_session,
    retry_after_seconds,
    snippet,
)
from tests.dripping import DRIPS, Drip, dripping


@given(st.text(max_size=40))
def test_any_header_is_read_without_an_error(text: str) -> None:
    seconds = retry_after_seconds(text, now=0.0)
    assert seconds is None or seconds >= 0


@given(st.integers(0, 10**9))
def test_seconds(seconds: int) -> None:
    assert retry_after_seconds(f" {seconds} ", now=5.0) == seconds


@given(st.integers(0, 2_000_000_000), st.integers(-100_000, 100_000))
def test_dates(now: int, ahead: int) -> None:
    assert retry_after_seconds(formatdate(now + ahead, usegmt=True), now) == max(0, ahead)


def test_no_header() -> None:
    assert retry_after_seconds(None, 0.0) is None
    assert retry_after_seconds("soon", 0.0) is None
    assert retry_after_seconds("-3", 0.0) is None


@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_the_pause_doubles_up_to_its_cap(number: int, jitter: float) -> None:
    policy = RetryPolicy(base_s=0.5, cap_s=8.0)
    whole = min(8.0, 0.5 * 2 ** (number - 1))
    assert whole / 2 <= policy.backoff_s(number, jitter) <= whole


def test_a_snippet_is_one_printable_line() -> None:
    assert snippet("a\n  b\x00\ud800" + "c" * 999).startswith("a b\\x00\\ud800ccc")
    assert len(snippet("c" * 999)) == 160


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/sparql", True),
        ("http://localhost/x", True),
        ("http://[::1]:80/", True),
        ("https://query.wikidata.org/sparql", False),
        ("http://127.0.0.1.example.org/", False),
        ("http://user@127.0.0.1:80@example.org/", False),
        ("not a url", False),
    ],
)
def test_loopback(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


open_session = partial(open_session, follows_redirects=False, trusts_environment=False)


@contextlib.contextmanager
def fails_soon(kind: type[Exception] = requests.RequestException, match: str = "") -> Iterator[None]:
    """Checks that the request in this context fails; a server of `dripping` sees to it that it does so in time."""
    with pytest.raises(kind, match=match):
        yield


def read(session: requests.Session, url: str, seconds: float = 0.4, renewed_by: int | None = None) -> bytes:
    """Reads a whole answer. Each single wait has a limit, but too late for the deadline."""
    with session, deadline(seconds, renewed_by), session.get(url, timeout=(6, 6), stream=True) as response:
        return b"".join(body_parts(response, 1024))


@pytest.mark.parametrize("name", DRIPS)
def test_no_part_of_a_slow_answer_outlives_the_deadline(name: str) -> None:
    with dripping(DRIPS[name]) as port, fails_soon(OverdueError, r"no end after 0.4 s"):
        read(open_session(), f"http://127.0.0.1:{port}/")


def test_a_very_slow_download_fails() -> None:
    with dripping(DRIPS["body"]) as port, fails_soon(OverdueError, r"fewer than 1,000 bytes in 0.4 s"):
        read(open_session(), f"http://127.0.0.1:{port}/", renewed_by=1_000)


def test_each_part_of_a_download_has_its_own_time() -> None:
    seconds = [100.0]
    own = Deadline(10.0, renewed_by=1_000, now=lambda: seconds[0])
    for _ in range(20):  # 100 s in all
        seconds[0] += 5.0
        assert own.at_most(None) == 5.0
        own.count_bytes(999)
        assert own.left_s() == 5.0
        own.count_bytes(1)
        assert own.left_s() == 10.0
    seconds[0] += 10.0
    with pytest.raises(TimeoutError):
        own.at_most(60.0)


def test_a_slow_tls_handshake_fails() -> None:
    hello = Drip(b"\x16\x03\x03\x40\x00", b"x")  # the head of a record of 16 KiB
    with dripping(hello) as port, fails_soon():
        read(open_session(), f"https://127.0.0.1:{port}/")


@pytest.mark.parametrize("name", ["status line", "header"])
def test_a_slow_proxy_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with dripping(DRIPS[name]) as port:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        with fails_soon():
            session = open_session(follows_redirects=False, trusts_environment=True)
            read(session, "https://service.example/")


def test_a_server_that_does_not_read_fails() -> None:
    with (
        dripping(Drip(b"", b"", reads=False)) as port,
        fails_soon(),
        open_session() as session,
        deadline(0.4),
    ):
        session.post(f"http://127.0.0.1:{port}/", data=b"x" * 30_000_000, timeout=(6, 6))


def test_a_host_whose_many_addresses_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a full backlog accepts nobody and refuses nobody."""
    with socket.socket() as listening, contextlib.ExitStack() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        for _ in range(3):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        one = (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [one] * 30)
        with fails_soon(), open_session() as session, deadline(0.5):
            session.get("http://many.example/", timeout=(0.3, 6), stream=True)


class _Redirecting(BaseHTTPRequestHandler):
    """Each answer comes in time and redirects; only their sum is too slow."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        time.sleep(0.2)
        self.send_response(302)
        self.send_header("Location", "/again")
        self.send_header("Content-Length", "1000000000")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"not the whole of it")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_redirects_share_one_deadline_and_their_bodies_are_not_read() -> None:
    _Redirecting.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Redirecting)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    session = open_session(follows_redirects=True, trusts_environment=False)
    try:
        with fails_soon(OverdueError, r"no end after 0.7 s"):
            read(session, f"http://127.0.0.1:{server.server_address[1]}/", seconds=0.7)
        assert len(_Redirecting.asked) > 1
    finally:
        server.shutdown()
        server.server_close()


def test_nothing_is_sent_without_a_deadline() -> None:
    with dripping(DRIPS["body"]) as port, open_session() as session, pytest.raises(LookupError):
        session.get(f"http://127.0.0.1:{port}/", timeout=(6, 6))


def answer(*lengths: str, more: str = "") -> Drip:
    """`{}`, with these Content-Length headers; the connection then stays open."""
    headers = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    return Drip(f"HTTP/1.1 200 OK\r\n{headers}{more}\r\n{{}}".encode(), b"")


@pytest.mark.parametrize(
    "lengths", [("2", "7"), ("7", "2"), ("2, 7",), ("0", "2"), ("-2",), ("+2",), ("two",), ("",)]
)
def test_an_answer_with_two_lengths_or_an_invalid_length_is_refused(lengths: tuple[str, ...]) -> None:
    with dripping(answer(*lengths)) as port, fails_soon(requests.ConnectionError, r"Content-Length is "):
        read(open_session(), f"http://127.0.0.1:{port}/", seconds=6)


@pytest.mark.parametrize("lengths", [("2",), ("2", "2"), ("2, 2",), ("2 , 2", "2")])
def test_equal_lengths_count_as_one(lengths: tuple[str, ...]) -> None:
    with dripping(answer(*lengths)) as port:
        assert read(open_session(), f"http://127.0.0.1:{port}/", seconds=6) == b"{}"


def test_the_chunks_of_a_chunked_answer_give_its_length() -> None:
    chunks = Drip(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b""
    )
    with dripping(chunks) as port:
        assert read(open_session(), f"http://127.0.0.1:{port}/", seconds=6) == b"{}"
