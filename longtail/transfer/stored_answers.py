"""Answers of services on disk: the cache of HTTP, and the answers of an unfinished stage.

`ResponseCache` follows HTTP's own rules: how long a response may be used without a request, and how it is revalidated.
`FinishedAnswers` lets a run after a kill repeat no request that was answered before. Both survive kill -9 and damage
(`storage.blob_store`); keys are hashes, and neither headers of requests nor the operator's contact are stored.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from requests.structures import CaseInsensitiveDict

from longtail.errors import LakeError
from longtail.storage.blob_store import BlobStore, remove_store
from longtail.transfer.failures import SlowAnswerError
from longtail.transfer.http import unix_seconds

_LOG = logging.getLogger(__name__)
MAX_BYTES = 512 << 20
_LONGEST_FRESH_S = 30 * 86_400.0
_ABANDONED_AFTER_S = 14 * 86_400.0
_SUFFIX = ".sqlite"
_SLOW = "slow:"


@dataclass(frozen=True)
class StoredResponse:
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

    def revalidate(self, headers: Mapping[str, str]) -> CaseInsensitiveDict[str]:
        """The headers of a 304, with the validators that it may leave out."""
        pairs = {"ETag": self.etag, "Last-Modified": self.last_modified}
        merged = CaseInsensitiveDict({name: value for name, value in pairs.items() if value})
        merged.update(headers)
        return merged


class ResponseCache:
    """Responses by address in one file of limited size; all processes that name the same folder share it.

    It holds whole, readable answers with status 200 to GET: the client stores them after it has understood them. If the
    file cannot be used, there is one warning and the run continues without it.
    """

    def __init__(self, folder: Path, now: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._store = BlobStore(folder / "responses.sqlite", max_bytes)
        self._now = now
        self._is_usable = True

    def get(self, url: str) -> StoredResponse | None:
        """The stored response of `url`, fresh or not."""
        blob = self._try(lambda: self._store.get(_hash(url)))
        if blob is None:
            return None
        head, _, body = blob.partition(b"\n")
        try:
            etag, last_modified, fresh_until = json.loads(head)
            return StoredResponse(body, etag, last_modified, float(fresh_until))
        except (ValueError, TypeError):
            self.drop(url)
            return None

    def put(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Store a body with status 200, or after a 304 the body that is still valid, as far as `headers` allow it."""
        fresh_until = _fresh_until(headers, self._now())
        validators = headers.get("ETag"), headers.get("Last-Modified")
        if fresh_until is None or (fresh_until <= self._now() and not any(validators)):
            self.drop(url)
            return
        head = json.dumps([*validators, fresh_until]).encode()
        self._try(lambda: self._store.put(_hash(url), head + b"\n" + body))

    def drop(self, url: str) -> None:
        self._try(lambda: self._store.delete(_hash(url)))

    def close(self) -> None:
        self._store.close()

    def _try(self, work: Callable[[], bytes | None]) -> bytes | None:
        if not self._is_usable:
            return None
        try:
            return work()
        except LakeError as error:
            self._is_usable = False
            _LOG.warning("cache of responses: %s. This run continues without it", error)
            return None


def _fresh_until(headers: Mapping[str, str], now: float) -> float | None:
    """The moment until which a response may be used without a request (`now`: not at all); None: do not store it."""
    directives = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (part.partition("=") for part in headers.get("Cache-Control", "").split(","))
    }
    if "no-store" in directives or headers.get("Vary", "").strip() == "*":
        return None
    age = _whole_number(headers.get("Age"))
    lifetime = 0.0 if "no-cache" in directives else _lifetime_s(directives.get("max-age"), headers)
    return now + min(max(0.0, lifetime - age), _LONGEST_FRESH_S)


def _lifetime_s(max_age: str | None, headers: Mapping[str, str]) -> float:
    if max_age is not None:
        return _whole_number(max_age)
    expires, date = (unix_seconds(headers.get(name)) for name in ("Expires", "Date"))
    return expires - date if expires is not None and date is not None else 0.0


def _whole_number(text: str | None) -> float:
    """The number of seconds in a header; 0 for anything else."""
    return float(text) if text and text.isascii() and text.isdecimal() else 0.0


class FinishedAnswers:
    """The stored answers of one stage, until its rows are in the lake. Errors: `LakeError` where the disk is full.

    A stage is identified by the fingerprint of its inputs, so that its answers never reach another stage. Answers of
    abandoned stages are removed after two weeks.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        _remove_old(folder)
        self._store = BlobStore(folder / f"{stage}{_SUFFIX}")
        self.n_known = 0

    def get_or_ask(self, key: str, ask: Callable[[], Any], *, notes_slow: bool = False) -> Any:
        """The stored answer to the request `key`; otherwise the result of `ask`, which is stored.

        `notes_slow`: also store that a request was too slow, and raise `SlowAnswerError` without a request next time.
        A relation that had to be divided is then not tried whole again.
        """
        stored = self._store.get(key)
        if stored is not None:
            self.n_known += 1
            return json.loads(stored)
        if notes_slow and (message := self._store.get(_SLOW + key)):
            raise SlowAnswerError(message.decode(), is_remembered=True)
        try:
            document = ask()
        except SlowAnswerError as error:
            if notes_slow:
                self._store.put(_SLOW + key, str(error).encode())
            raise
        self._store.put(key, json.dumps(document).encode())
        return document

    def forget_slow(self) -> None:
        """Called after giving up: the next run tries everything again, since the service may be faster then."""
        self._store.delete_prefix(_SLOW)

    def close(self) -> None:
        self._store.close()


def forget_stage(folder: Path, stage: str) -> None:
    """Remove the answers of a stage whose rows are in the lake."""
    remove_store(folder / f"{stage}{_SUFFIX}")


def _remove_old(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        try:
            is_old = time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S
        except OSError:
            continue
        if is_old:
            remove_store(path)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
