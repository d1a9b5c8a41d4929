"""Answers of an unfinished stage: a run that was killed does not ask again for what it was told already.

What belongs here: which answers belong to which stage, and when they are let go. What does not: the file
(`blob_store`), requests (`http`), what a stage is (`ingest`).

A stage is known by the fingerprint of its inputs, so that answers never get into another one. Once its rows are in
the lake its answers are removed; those of stages that nobody came back to are removed after two weeks.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dagster_project.core.blob_store import BlobStore, remove_store
from dagster_project.core.wikimedia.transport.failures import SlowAnswerError

_SUFFIX = ".sqlite"
_KEPT_S = 14 * 86_400.0
_SLOW = "slow:"


class FinishedAnswers:
    """The answers that one stage has had. Errors: `LakeError` where the disk is full."""

    def __init__(self, folder: Path, stage: str) -> None:
        _remove_abandoned(folder)
        self._store = BlobStore(folder / f"{stage}{_SUFFIX}")
        self.n_known = 0

    def once(self, key: str, ask: Callable[[], Any], *, notes_slow: bool = False) -> Any:
        """What is known of the request `key`; else what `ask` gives, which is kept.

        `notes_slow`: that a request was too slow is kept too, and raised again (`SlowAnswerError`) unasked: a relation
        that had to be cut up is not tried whole again.
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
        """After giving up: the next run tries everything anew, the service may be faster then."""
        self._store.delete_prefix(_SLOW)

    def close(self) -> None:
        self._store.close()


def request_key(
    method: str, url: str, params: Mapping[str, str] | None, form: Mapping[str, str] | None
) -> str:
    """What tells one request from another."""
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
