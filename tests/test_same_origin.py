"""Which requests reach the UI: the rules for headers and addresses, one by one. `journeys/test_ui` tries real
browsers."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.types import Message, Receive, Scope, Send

from dagster_project.same_origin import SameOrigin, refusal

LOCAL = {"host": "127.0.0.1:3000"}
DELETE = 'mutation { deletePipelineRun(runId: "x") { __typename } }'


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


@pytest.mark.parametrize(
    "query",
    [
        DELETE,
        f"query A {{ version }} {DELETE}",
        "fragment F on Mutation { __typename } mutation M { ...F }",
        "subscription { capturedLogs(logKey: []) { cursor } }",
        f"# a comment\n,,{DELETE}",
    ],
)
def test_no_mutation_by_get(query: str) -> None:
    assert refusal(scope(LOCAL, query=query))
    assert refusal(scope(LOCAL, "HEAD", query=query))
    assert refusal(scope(LOCAL, "POST", query=query)) is None
    twice = scope(LOCAL)
    twice["query_string"] = urlencode([("query", query), ("query", "{ version }")]).encode()
    assert refusal(twice)


@pytest.mark.parametrize(
    "query", ["{ version }", "query A { version }", "mutation {", "", "mutation of a word"]
)
def test_queries_by_get_and_other_text_are_allowed(query: str) -> None:
    assert refusal(scope(LOCAL, query=query)) is None


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
