"""Answers of services on disk, so that a run after a kill repeats no request that was answered before.

They survive kill -9 and damage (`storage.blob_store`); keys are hashes, and neither headers of requests nor the
operator's contact are stored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtail.storage.blob_store import BlobStore, remove_store

_ABANDONED_AFTER_S = 14 * 86_400.0
_SUFFIX = ".sqlite"


class FinishedAnswers:
    """The stored answers of one stage, until its rows are in the lake. Errors: `LakeError` where the disk is full.

    A stage is identified by the fingerprint of its inputs, so that its answers never reach another stage. Answers of
    abandoned stages are removed after two weeks.
    """

    def __init__(self, folder: Path, stage: str) -> None:
        _remove_old(folder)
        self._store = BlobStore(folder / f"{stage}{_SUFFIX}")
        self.n_known = 0

    def get_or_ask(self, key: str, ask: Callable[[], Any]) -> Any:
        """The stored answer to the request `key`; otherwise the result of `ask`, which is stored."""
        stored = self._store.get(key)
        if stored is not None:
            self.n_known += 1
            return json.loads(stored)
        document = ask()
        self._store.put(key, json.dumps(document).encode())
        return document

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
