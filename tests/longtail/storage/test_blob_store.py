"""Many entries of a blob store at a time; single ones are tested by those that use them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from longtail.errors import LakeError
from longtail.storage.blob_store import BlobStore


def test_many_entries_are_stored_once_and_found(tmp_path: Path) -> None:
    store, other = BlobStore(tmp_path / "some.sqlite"), BlobStore(tmp_path / "some.sqlite")
    assert store.get_many(["a"]) == {}
    entries = {f"key {i}": bytes([i % 256]) * i for i in range(1_200)}
    store.put_many(entries)
    other.put_many({"key 3": b"another", "new": b""})
    assert store.get_many([*entries, "new", "nobody's"]) == {**entries, "new": b""}
    assert store.get("key 7") == bytes([7]) * 7
    store.put_many({})
    store.close()
    other.close()


def test_entries_are_stored_all_or_none(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "some.sqlite")
    store.put_many({"a": b"1"})
    with closing(sqlite3.connect(store.path)) as database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON entries WHEN new.key = 'c' BEGIN SELECT raise(abort, 'no'); END"
        )
    with pytest.raises(LakeError, match="could not be used"):
        store.put_many({"b": b"2", "c": b"3", "d": b"4"})
    assert store.get_many(["a", "b", "c", "d"]) == {"a": b"1"}
    store.close()


def test_a_damaged_entry_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    store = BlobStore(path)
    store.put_many({"a": b"the first of them", "b": b"the second of them"})
    store.close()
    path.write_bytes(path.read_bytes().replace(b"the first", b"the worst"))
    assert store.get_many(["a", "b"]) == {"b": b"the second of them"}
    store.put_many({"a": b"again"})
    assert store.get("a") == b"again"
    store.close()
