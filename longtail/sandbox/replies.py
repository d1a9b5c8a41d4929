"""A service's answer: status, body, headers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

LAST_MODIFIED = "Thu, 01 Oct 2026 00:00:00 GMT"  # a world does not change
MAX_AGE_S = 14_400  # for page views, as Wikimedia grants it; everything else needs a new request
_GRANTED = "/api/rest_v1/metrics/pageviews/"
_RANGE = re.compile(r"bytes=(\d{1,15})-")


@dataclass(frozen=True)
class Reply:
    """One answer; a body that is not bytes is sent piece by piece."""

    status: int
    body: bytes | Iterator[bytes]
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, status: int, document: Any, content_type: str = "application/json; charset=utf-8") -> Reply:
        return cls(
            status, json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"), content_type
        )

    @classmethod
    def text(cls, status: int, text: str) -> Reply:
        return cls(status, text.encode("utf-8", "backslashreplace"), "text/plain; charset=utf-8")


def from_byte(reply: Reply, asked: str, condition: str) -> Reply:
    """The answer to a request with the headers Range (`asked`) and If-Range (`condition`): the end of the body.

    The answer is the whole body if there is no such range, or if the condition names another version.
    """
    match = _RANGE.fullmatch(asked)
    if not match or reply.status != 200 or condition != reply.headers.get("ETag"):
        return reply
    body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    start = int(match[1])
    if start >= len(body):
        return Reply(416, b"", reply.content_type, {"Content-Range": f"bytes */{len(body)}"})
    more = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
    return Reply(206, body[start:], reply.content_type, {**reply.headers, **more})


def conditional(reply: Reply, path: str, asked: Message) -> Reply:
    """The reply to GET with its validators; 304 without a body if the client's headers `asked` name one of them."""
    if reply.status != 200 or not isinstance(reply.body, bytes):
        return reply
    etag = f'"{hashlib.blake2b(reply.body, digest_size=12).hexdigest()}"'
    seconds = MAX_AGE_S if path.startswith(_GRANTED) else 0
    headers = {"ETag": etag, "Last-Modified": LAST_MODIFIED, "Cache-Control": f"max-age={seconds}"}
    named = asked.get("If-None-Match")
    is_known = etag in named if named is not None else asked.get("If-Modified-Since") == LAST_MODIFIED
    status, body = (304, b"") if is_known else (200, reply.body)
    return Reply(status, body, reply.content_type, {**headers, **reply.headers})
