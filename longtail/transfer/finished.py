"""Answers of an unfinished stage: after a kill, a run does not repeat the requests that were already answered.

A stage is identified by the fingerprint of its inputs, so that its answers never reach another stage. When its rows
are in the lake, its answers are removed. Answers of abandoned stages are removed after two weeks.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longtail.storage.blob_store import BlobStore, remove_store
from longtail.transfer.failures import SlowAnswerError

_SUFFIX = ".sqlite"
_KEPT_S = 14 * 86_400.0
_SLOW = "slow:"


class FinishedAnswers:
    """The stored answers of one stage. Errors: `LakeError` where the disk is full."""

    def __init__(self, folder: Path, stage: str) -> None:
        _remove_abandoned(folder)
        self._store = BlobStore(folder / f"{stage}{_SUFFIX}")
        self.n_known = 0

    def once(self, key: str, ask: Callable[[], Any], *, notes_slow: bool = False) -> Any:
        """The stored answer to the request `key`; otherwise the result of `ask`, which is stored.

        `notes_slow`: also store that a request was too slow, and raise `SlowAnswerError` without a request next time.
        A relation that had to be divided is then not tried whole again.
        """
        known = self._store.get(key)
        if known is not None:
            self.n_known += 1
            return json.loads(known)
        if notes_slow and (said := self._store.get(_SLOW + key)):
            raise SlowAnswerError(said.decode(), is_remembered=True)
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


def request_key(
    method: str, url: str, params: Mapping[str, str] | None, form: Mapping[str, str] | None
) -> str:
    """Identifies a request."""
    text = json.dumps([method, url, params and dict(params), form and dict(form)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def forget_stage(folder: Path, stage: str) -> None:
    """Remove the answers of a stage whose rows are in the lake."""
    remove_store(folder / f"{stage}{_SUFFIX}")


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        try:
            is_old = time.time() - path.stat().st_mtime > _KEPT_S
        except OSError:
            continue
        if is_old:
            remove_store(path)
