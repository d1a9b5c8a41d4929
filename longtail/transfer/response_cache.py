"""The on-disk cache of responses: how long a response may be used without a request, and how to revalidate it.

The cache holds only whole, readable answers with status 200 to GET: the client stores them after it has understood
them. Keys are hashes of addresses. Headers of requests and the operator's contact are not stored. If the cache cannot
be used, there is one warning and the run continues without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from requests.structures import CaseInsensitiveDict

from longtail.errors import LakeError
from longtail.storage.blob_store import BlobStore
from longtail.transfer.http import unix_seconds

_LOG = logging.getLogger(__name__)
MAX_BYTES = 512 << 20
_LONGEST_FRESH_S = 30 * 86_400.0


@dataclass(frozen=True)
class KeptResponse:
    """A body, its validators, and the moment (Unix seconds) until which it may be used without a request."""

    body: bytes
    etag: str | None
    last_modified: str | None
    fresh_until: float

    def is_fresh(self, now: float) -> bool:
        """Whether it may be used without a request. A clock that was set back does not keep it fresh for ever."""
        return now < self.fresh_until <= now + _LONGEST_FRESH_S

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that request the body only if it has changed."""
        pairs = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in pairs.items() if value}

    def validated_by(self, headers: Mapping[str, str]) -> CaseInsensitiveDict[str]:
        """The headers of a 304, with the validators that it may leave out."""
        pairs = {"ETag": self.etag, "Last-Modified": self.last_modified}
        merged = CaseInsensitiveDict({name: value for name, value in pairs.items() if value})
        merged.update(headers)
        return merged


class ResponseCache:
    """Responses by address in one file of limited size; all processes that name the same folder share it."""

    def __init__(self, folder: Path, now: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._store = BlobStore(folder / "responses.sqlite", max_bytes)
        self._now = now
        self._is_usable = True

    def get(self, url: str) -> KeptResponse | None:
        """The stored response of `url`, fresh or not."""
        blob = self._tried(lambda: self._store.get(_key(url)))
        if blob is None:
            return None
        head, _, body = blob.partition(b"\n")
        try:
            etag, last_modified, fresh_until = json.loads(head)
            return KeptResponse(body, etag, last_modified, float(fresh_until))
        except (ValueError, TypeError):
            self.drop(url)
            return None

    def keep(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Store a body with status 200, or after a 304 the body that is still valid, as far as `headers` allow it."""
        fresh_until = _fresh_until(headers, self._now())
        validators = headers.get("ETag"), headers.get("Last-Modified")
        if fresh_until is None or (fresh_until <= self._now() and not any(validators)):
            self.drop(url)
            return
        head = json.dumps([*validators, fresh_until]).encode()
        self._tried(lambda: self._store.put(_key(url), head + b"\n" + body))

    def drop(self, url: str) -> None:
        self._tried(lambda: self._store.delete(_key(url)))

    def close(self) -> None:
        self._store.close()

    def _tried(self, work: Callable[[], bytes | None]) -> bytes | None:
        if not self._is_usable:
            return None
        try:
            return work()
        except LakeError as error:
            self._is_usable = False
            _LOG.warning("cache of responses: %s. This run continues without it", error)
            return None


def _key(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def _fresh_until(headers: Mapping[str, str], now: float) -> float | None:
    """The moment until which a response may be used without a request (`now`: not at all); None: do not store it."""
    directives = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (part.partition("=") for part in headers.get("Cache-Control", "").split(","))
    }
    if "no-store" in directives or headers.get("Vary", "").strip() == "*":
        return None
    age = headers.get("Age", "")
    seconds = 0.0
    if "no-cache" not in directives:
        seconds = _lifetime_s(directives.get("max-age"), headers)
    elapsed = float(age) if age.isascii() and age.isdecimal() else 0.0
    return now + min(max(0.0, seconds - elapsed), _LONGEST_FRESH_S)


def _lifetime_s(max_age: str | None, headers: Mapping[str, str]) -> float:
    if max_age is not None:
        return float(max_age) if max_age.isascii() and max_age.isdecimal() else 0.0
    expires, date = (unix_seconds(headers.get(name)) for name in ("Expires", "Date"))
    return expires - date if expires is not None and date is not None else 0.0
