"""How much one client can make the servers on 127.0.0.1 keep: the heads of requests have a limit."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from dagster_project.same_origin import LARGEST_HEAD, SameOrigin, SmallHeads

GET = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)
MOST_S = 20.0
"""A head that is read for longer than this has no limit."""


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Like Dagster's application, whose WebSockets stay open."""
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).accept()
    else:
        await PlainTextResponse("here")(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server with the protocol of `make router` and `make ui`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(SameOrigin(echo), http=SmallHeads, log_level="warning")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize(
    "drop", [b"a" * 9_000, b"X-Long: " + b"a" * 9_000 + b"\r\n"], ids=["one header", "many headers"]
)
def test_a_head_that_does_not_end_is_refused(port: int, drop: bytes) -> None:
    until, said = time.monotonic() + MOST_S, b""
    with socket.create_connection(("127.0.0.1", port)) as client, contextlib.suppress(ConnectionError):
        client.settimeout(0.01)
        client.sendall(GET + b"X: ")
        while not said and time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                said = client.recv(1 << 16)
            client.sendall(drop)
    assert time.monotonic() < until
    assert said[:12] in (b"HTTP/1.1 400", b"")  # a reset may overtake the answer


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"", b"200"),
        (UPGRADE, b"101"),
        (b"X: " + b"a" * (LARGEST_HEAD - 200) + b"\r\n", b"200"),
        (b"X: " + b"a" * LARGEST_HEAD + b"\r\n", b"431"),
    ],
)
def test_a_head_has_a_limit(port: int, head: bytes, code: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(GET + head + b"\r\n")
        assert client.recv(12) == b"HTTP/1.1 " + code
