"""Which requests a server on 127.0.0.1 answers: those of its own pages and of local programs, but not of other websites.

Every page in a user's browser can reach a server on 127.0.0.1. Four rules keep other websites out:

    1. `Host` names this machine (127.0.0.1, localhost or [::1]). A foreign name that resolves to it (DNS rebinding) is
       refused.
    2. `Origin`, if a request has it, is the server's own. Browsers send it with every WebSocket and with every request
       that changes something.
    3. `Sec-Fetch-Site`, which browsers add, is `same-origin` or `none`. A link on another site may still open a page.
    4. A GET or HEAD changes nothing: GraphQL is asked by POST, and an address holds no query.

Programs (curl, GraphQL clients) send neither `Origin` nor `Sec-Fetch-Site`, and get answers. The address and the headers
of a request have at most `LARGEST_HEAD` bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 64 * 1024  # bytes

_LOCAL_HOST = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?")
_READING = ("GET", "HEAD")
_ONCE = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1


_TOO_LARGE = f"address and headers have more than {LARGEST_HEAD:,} bytes"


class SmallHeads(HttpToolsProtocol):
    """A connection that refuses a head which does not end. uvicorn itself keeps all of it in memory."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._n_head, self._is_in_head = 0, False

    def data_received(self, data: bytes) -> None:
        was_in_head = self._is_in_head
        super().data_received(data)
        self._n_head = self._n_head + len(data) if was_in_head and self._is_in_head else 0
        if self._n_head > LARGEST_HEAD:
            self.send_400_response(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()


class SameOrigin:
    """An ASGI application in front of another one, which receives only the requests that obey the rules."""

    def __init__(
        self,
        app: ASGIApp,
        refuse: Callable[[str, int], ASGIApp] = lambda reason, code: PlainTextResponse(f"{reason}\n", code),
    ) -> None:
        """`refuse` makes the response to a refused request from the reason and the status code."""
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        head = scope.get("raw_path") or b"", scope.get("query_string", b""), *chain(*scope["headers"])
        is_large = sum(map(len, head)) > LARGEST_HEAD
        refused = _TOO_LARGE if is_large else refusal(scope)
        if refused is None:
            await self._app(scope, receive, _forbid_framing(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": refused})
        else:
            await self._refuse(refused, 431 if is_large else 403)(scope, receive, send)


def refusal(scope: Scope) -> str | None:
    """Why the request of an ASGI scope (`http` or `websocket`) is refused; None if it obeys the rules."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in headers and name in _ONCE:
            return f"header {name} occurs twice"
        headers[name] = raw_value.decode("latin-1").strip()
    host = headers.get("host", "").lower()
    if not _LOCAL_HOST.fullmatch(host):
        return "only the names 127.0.0.1 and localhost get answers"
    if headers.get("origin", f"http://{host}").lower() not in (f"http://{host}", f"https://{host}"):
        return "the request comes from another website"
    method = scope.get("method", "GET")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not (
        method in _READING and scope["type"] == "http" and _opens_a_page(headers)
    ):
        return "the request comes from another website"
    asked = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
    if method in _READING and scope["path"].rstrip("/").endswith("/graphql") and "query" in asked:
        return "GraphQL is asked by POST"
    return None


def _opens_a_page(headers: Mapping[str, str]) -> bool:
    """Whether the browser shows the answer as its own page: not a frame, image, script or form that posts."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _forbid_framing(send: Send) -> Send:
    """`send` with a header that forbids other websites to show the answer in a frame, where they could steal clicks."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Frame-Options"] = "SAMEORIGIN"
        await send(message)

    return send_with_header
