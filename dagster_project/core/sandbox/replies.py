"""What a service answers: status, body, headers.

Here: the reply and its usual forms. Not here: what is said (`sparql.py`, `wikibase.py`, `rest.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer; a body that is no bytes is sent piece by piece."""

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
