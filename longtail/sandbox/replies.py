"""A service's answer: status, body, headers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    def api_error(cls, code: str, info: str) -> Reply:
        """An error of MediaWiki's API, which has status 200."""
        return cls.json(200, {"error": {"code": code, "info": info}, "servedby": "sandbox"})

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
