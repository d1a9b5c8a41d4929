"""How much, and for how long, one client can hold the service: heads that never end, and slow senders and readers."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from dagster_project.same_origin import LARGEST_HEAD, SameOrigin, SmallHeads
from longtail.commands.router import SERVED, LimitedConnection, application
from longtail.router.service import RouterStore

HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET /openapi.json HTTP/1.1\r\n" + HOST
POST = b"POST /decide HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 90\r\n\r\n"
MOST_S = 20.0
"""A connection that is held longer than this has no limit."""


class Hasty(LimitedConnection):
    slowest_s = 0.5


class Brisk(LimitedConnection):
    slowest_s = 2.0


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with more than the buffers of both sockets hold."""
    await PlainTextResponse(b"x" * (1 << 26))(scope, receive, send)


@contextlib.contextmanager
def serving(app: ASGIApp, protocol: type[SmallHeads], **more: str) -> Iterator[tuple[int, uvicorn.Server]]:
    """A port and its server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, **{**SERVED, "http": protocol, **more}))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1], server
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def app() -> ASGIApp:
    """The service without the routers that none of these requests reaches."""
    return application(RouterStore.__new__(RouterStore))


@pytest.fixture(scope="module")
def hasty(app: ASGIApp) -> Iterator[int]:
    with serving(app, Hasty) as (port, _):
        yield port


@pytest.fixture(scope="module")
def patient(app: ASGIApp) -> Iterator[int]:
    with serving(app, LimitedConnection) as (port, _):
        yield port


def drip(port: int, first: bytes, drop: bytes, pause_s: float = 0.05) -> tuple[bool, bytes]:
    """Send `first`, then `drop` again and again: whether the server ended the connection, and what it said."""
    until, said = time.monotonic() + MOST_S, b""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(pause_s)
        try:
            client.sendall(first)
            while time.monotonic() < until:
                with contextlib.suppress(TimeoutError):
                    if not (got := client.recv(1 << 16)):
                        return True, said
                    said += got
                if drop:
                    client.sendall(drop)
        except ConnectionError:
            return True, said
    return False, said


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"GET /", b"x"),
        (GET, b""),
        (GET + b"X-Slow: ", b"a"),
        (GET, b"X-Slow: a\r\n"),
        (POST, b" "),
        (POST.replace(b"Content-Length: 90", b"Transfer-Encoding: chunked"), b"1\r\n \r\n"),
        (GET + b"\r\n" + GET, b"X-Slow: a\r\n"),
        (GET + b"\r\n" + POST, b" "),
    ],
)
def test_a_client_that_sends_slowly_is_cut_off(hasty: int, first: bytes, drop: bytes) -> None:
    ended, said = drip(hasty, first, drop)
    assert ended
    assert said.startswith(b"HTTP/1.1 200 OK") or said == b""


def test_a_client_that_does_not_read_is_cut_off() -> None:
    with serving(large, Brisk) as (port, server), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", port))
        client.sendall(GET + b"\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        until = time.monotonic() + MOST_S
        while server.server_state.connections and time.monotonic() < until:
            time.sleep(0.05)
        assert not server.server_state.connections


def test_each_request_of_a_connection_has_the_limit_for_itself(app: ASGIApp) -> None:
    with serving(app, LimitedConnection) as (port, server):
        client, limits = HTTPConnection("127.0.0.1", port), []
        for _ in range(3):
            client.request("GET", "/none")
            assert client.getresponse().read() == b'{"error":"Not Found"}'
            connection: Any = next(iter(server.server_state.connections))
            while connection._limit in limits:  # the answer arrives before the server has done with it
                time.sleep(0.01)
            limits.append(connection._limit)
        assert [limit.cancelled() for limit in limits] == [True, True, False]
        client.close()


def test_the_limit_is_half_a_minute() -> None:
    assert SERVED["http"].slowest_s == 30


@pytest.mark.parametrize(
    "drop", [b"a" * 9_000, b"X-Long: " + b"a" * 9_000 + b"\r\n"], ids=["one header", "many headers"]
)
def test_a_head_that_does_not_end_is_refused(patient: int, drop: bytes) -> None:
    start = time.monotonic()
    ended, said = drip(patient, GET + b"X: ", drop, pause_s=0.01)
    assert (ended, said[:12]) in ((True, b"HTTP/1.1 400"), (True, b""))  # a reset may overtake the answer
    assert time.monotonic() - start < MOST_S


@pytest.mark.parametrize(("n_bytes", "code"), [(LARGEST_HEAD - 200, b"200"), (LARGEST_HEAD, b"431")])
def test_a_head_has_a_limit(patient: int, n_bytes: int, code: bytes) -> None:
    with socket.create_connection(("127.0.0.1", patient)) as client:
        client.sendall(GET + b"X: " + b"a" * n_bytes + b"\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 " + code


def test_the_interface_has_the_same_limit_of_heads_and_answers_the_others() -> None:
    """As `webserver.main` serves Dagster's application, whose WebSockets stay open."""

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).accept()
        else:
            await PlainTextResponse("here")(scope, receive, send)

    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
    with serving(SameOrigin(echo), SmallHeads, ws="auto") as (port, _):
        for first, code in (
            (GET, b"200"),
            (GET + upgrade, b"101"),
            (GET + b"X: " + b"a" * LARGEST_HEAD + b"\r\n", b"431"),
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(first + b"\r\n")
                assert client.recv(12) == b"HTTP/1.1 " + code
        ended, said = drip(port, GET + b"X: ", b"a" * 9_000, pause_s=0.01)
        assert (ended, said[:12]) in ((True, b"HTTP/1.1 400"), (True, b""))
