"""Which requests reach the UI: the rules for headers and addresses, one by one, and how long they may be.
`journeys/test_ui` tries real browsers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from dagster_project.same_origin import LARGEST_HEAD, SameOrigin, SmallHeads, refusal

LOCAL = {"host": "127.0.0.1:3000"}


def scope(
    headers: dict[str, str] | list[tuple[str, str]], method: str = "GET", type: str = "http", **query: str
) -> dict[str, Any]:
    pairs = headers.items() if isinstance(headers, dict) else headers
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    of_http = {"method": method} if type == "http" else {}
    return {
        "type": type,
        "headers": raw,
        "path": "/graphql",
        "query_string": urlencode(query).encode(),
        **of_http,
    }


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost:3000", "LocalHost", "[::1]:3000"])
def test_programs_on_this_machine_get_answers(host: str) -> None:
    assert refusal(scope({"host": host}, "POST")) is None
    assert refusal(scope({"host": host}, type="websocket")) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "evil.example:3000"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost:3000@evil.example"},
        {"host": "127.0.0.1:3000 evil.example"},
        {"host": "127.0.0.2:3000"},
        {"host": "0.0.0.0:3000"},
        [("host", "127.0.0.1:3000"), ("Host", "evil.example")],
        [("host", "127.0.0.1:3000"), ("host", "127.0.0.1:3000")],
    ],
)
def test_foreign_and_repeated_hosts_are_refused(headers: dict[str, str]) -> None:
    assert refusal(scope(headers))
    assert refusal(scope(headers, type="websocket"))


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("origin", "served"),
    [
        ("http://127.0.0.1:3000", True),
        ("HTTP://127.0.0.1:3000", True),
        ("https://127.0.0.1:3000", True),  # behind a proxy of one's own that adds TLS
        ("http://127.0.0.1:3001", False),
        ("http://localhost:3000", False),
        ("http://127.0.0.1", False),
        ("https://evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_the_servers_own_origin_may_change_or_stream(kind: str, origin: str, served: bool) -> None:
    assert (refusal(scope({**LOCAL, "origin": origin}, "POST", kind)) is None) == served


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_other_sites_may_open_a_page_and_nothing_else(site: str) -> None:
    page = {**LOCAL, "sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert refusal(scope(page)) is None
    assert refusal(scope(page, "POST"))
    assert refusal(scope(page, type="websocket"))
    for changed in ({"sec-fetch-dest": "iframe"}, {"sec-fetch-mode": "no-cors"}, {"sec-fetch-dest": "image"}):
        assert refusal(scope({**page, **changed}))


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_servers_own_pages_are_served(site: str) -> None:
    assert refusal(scope({**LOCAL, "sec-fetch-site": site}, "POST")) is None


@pytest.mark.parametrize("query", ["mutation { deleteRun(runId: 1) { __typename } }", "{ version }"])
def test_an_address_holds_no_graphql(query: str) -> None:
    assert refusal(scope(LOCAL, query=query))
    assert refusal(scope(LOCAL, "HEAD", query=query))
    assert refusal(scope(LOCAL, "POST", query=query)) is None
    assert refusal(scope(LOCAL)) is None
    assert refusal({**scope(LOCAL, query=query), "path": "/assets"}) is None


def test_refused_requests_never_reach_the_application() -> None:
    reached: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["type"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})

    def ask(scope: Scope) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        asyncio.run(SameOrigin(application)(scope, receive, send))
        return sent

    refused = ask(scope({"host": "evil.example"}))
    assert (refused[0]["status"], reached) == (403, [])
    closed = ask(scope({**LOCAL, "origin": "https://evil.example"}, type="websocket"))
    assert (closed[0]["type"], closed[0]["code"], reached) == ("websocket.close", 1008, [])
    answered = ask(scope(LOCAL))
    assert (answered[0]["status"], reached) == (200, ["http"])
    assert (b"x-frame-options", b"SAMEORIGIN") in answered[0]["headers"]
    ask({"type": "lifespan"})
    assert reached == ["http", "lifespan"]


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
