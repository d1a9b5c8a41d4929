"""The answers of a linking service, stored for all studies of one home: each text is sent once.

No token is stored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from longtail.reference.tagme import LANGUAGE, Annotation
from longtail.storage.blob_store import BlobStore


class LinkCache:
    """The answers of one service; several processes may share the file. A context manager.

    Errors: `LakeError` where the file cannot be used. A damaged file is renamed, with a warning.
    """

    def __init__(self, folder: Path, service: str) -> None:
        name = hashlib.sha256(service.encode()).hexdigest()[:32]
        self._store = BlobStore(folder / f"{name}.sqlite")

    def __enter__(self) -> LinkCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def find(self, texts: Iterable[str]) -> dict[str, list[Annotation]]:
        """The stored answers, by text."""
        kept = ((text, self._store.get(_key(text))) for text in texts)
        return {text: _annotations(answer) for text, answer in kept if answer is not None}

    def store(self, text: str, annotations: Sequence[Annotation]) -> None:
        """Store an answer; a later kill does not lose it."""
        values = [dataclasses.astuple(one) for one in annotations]
        self._store.put(_key(text), json.dumps(values, ensure_ascii=False).encode())


def _key(text: str) -> str:
    return hashlib.sha256(json.dumps([LANGUAGE, text]).encode()).hexdigest()


def _annotations(answer: bytes) -> list[Annotation]:
    return [Annotation(*values) for values in json.loads(answer)]
