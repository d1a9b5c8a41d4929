"""SQLite files that several processes use: every lock is waited for, and what lasts is called a lock."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from longtail.errors import LakeError
from longtail.storage import sqlite_file
from longtail.storage.blob_store import BlobStore
from longtail.storage.sqlite_file import SqliteFile

LOG = logging.getLogger("sqlite_file")


@contextmanager
def held(path: Path, *statements: str) -> Iterator[sqlite3.Connection]:
    """Another program has the file open, and a lock on it."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as holder:
        for statement in statements:
            holder.execute(statement)
        yield holder


def test_four_processes_that_begin_a_file_at_once_lose_nothing(tmp_path: Path) -> None:
    """Any of them makes the file, its table and its log; SQLite refuses some of these locks at once."""
    waits, starts = os.pipe()
    path, writers = tmp_path / "some.sqlite", []
    for writer in range(4):
        if not (pid := os.fork()):
            os.close(starts)
            os.read(waits, 1)  # until all are there
            code = 1
            try:
                store = BlobStore(path)
                for number in range(12):
                    store.put(f"{writer}.{number}", b"entry")
                code = 0
            finally:
                os._exit(code)
        writers.append(pid)
    os.close(waits)
    os.close(starts)
    assert [os.waitpid(pid, 0)[1] for pid in writers] == [0] * 4
    store = BlobStore(path)
    assert len(store.get_many([f"{writer}.{number}" for writer in range(4) for number in range(12)])) == 48
    store.close()


def test_the_switch_to_wal_waits_for_a_writer(tmp_path: Path) -> None:
    """SQLite refuses it at once while another process writes a file that is new, whatever its timeout is."""
    path = tmp_path / "some.sqlite"
    store = BlobStore(path)
    with held(path, "create table other (a)", "begin immediate") as writer:
        release = threading.Timer(0.3, lambda: writer.execute("commit"))
        release.start()
        store.put("a", b"1")
        release.join()
    assert store.get("a") == b"1"
    store.close()


def test_a_lock_that_lasts_is_called_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "PATIENCE_S", 0.01)
    store = BlobStore(tmp_path / "some.sqlite")
    store.put("a", b"1")
    with held(store.path, "begin immediate"), pytest.raises(LakeError) as caught:
        store.put("b", b"2")
    line = str(caught.value)
    assert "another process has kept it locked for 0.01 s; what was there is unchanged" in line
    assert "\n" not in line
    assert "disk" not in line
    assert store.get("a") == b"1"
    store.put("b", b"2")
    store.close()


def test_a_file_that_another_process_has_set_aside_gets_nothing_more(tmp_path: Path) -> None:
    one, other = (BlobStore(tmp_path / "some.sqlite") for _ in range(2))
    one.put("a", b"1")
    other.put("b", b"2")
    other.close()
    one.path.rename(tmp_path / "aside")
    one.put("c", b"3")
    assert other.get_many(["a", "b", "c"]) == {"c": b"3"}
    one.close()
    other.close()


def test_of_two_that_meet_damage_one_sets_the_file_aside(tmp_path: Path) -> None:
    one, other = (
        SqliteFile(tmp_path / "some.sqlite", ("create table if not exists t (a)",), LOG) for _ in "ab"
    )

    def add_after_damage(meanwhile: Callable[[], None]) -> Callable[[sqlite3.Connection], None]:
        errors = [sqlite3.DatabaseError("malformed")]
        errors[0].sqlite_errorcode = sqlite3.SQLITE_CORRUPT

        def add(database: sqlite3.Connection) -> None:
            if errors:
                meanwhile()
                raise errors.pop()
            database.execute("insert into t values (1)")

        return add

    one.run(add_after_damage(lambda: other.run(add_after_damage(lambda: None))))
    assert len(list(tmp_path.glob("some.sqlite.damaged-*"))) == 1
    assert one.run(lambda database: database.execute("select count(*) from t").fetchone()) == (2,)
    one.close()
    other.close()
