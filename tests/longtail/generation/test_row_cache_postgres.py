"""The row cache in Postgres: it gives back what SQLite gives, to several processes, and survives its server's restart."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from test_row_cache import LOG, accounts, row

from benchmarks.cluster import postgres_programs, postgres_server, race_caches
from longtail.errors import LakeError
from longtail.generation.backends.base import CandidateScore, Generation, Identity, Scored
from longtail.generation.engine import row_cache
from longtail.generation.engine.row_cache import DATABASE, CachedRow, RowCache, merge
from longtail.generation.tasks.registry import needs_of_models
from longtail.scoring.model_answer import Confidence
from longtail.storage import postgres
from longtail.storage.home import DEFAULT_STUDY_FILE
from longtail.study.file import load_study

Control = Callable[[str], None]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Control]]:
    if not postgres_programs():
        pytest.skip("no postgresql on this machine: a row cache in Postgres was not tried")
    with postgres_server("-c fsync=off") as found:
        yield found


@pytest.fixture
def control(server: tuple[str, Control], monkeypatch: pytest.MonkeyPatch) -> Control:
    """What restarts the server, whose database is the row cache."""
    monkeypatch.setenv(DATABASE, server[0])
    return server[1]


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def opened(name: str) -> RowCache:
    """The cache of a model that no other test has; there is no folder."""
    return RowCache(Path("/dev/null/none"), Identity(name, "float32", "none", "fake", "1"), LOG)


def test_any_row_comes_back(control: Control) -> None:
    known = Confidence(2, -0.5, 0.1, 0.2, 0.3, 0.4)
    rows = {
        key(0): row(""),
        key(1): row("a\x00b \U0001f600 ? %s 'quoted' \udcff"),
        key(2): CachedRow(Generation("sure", known, **accounts(7, usd=0.25)), "fake 1", "other"),
        key(3): CachedRow(
            Scored((CandidateScore(-1.5, 2),), text="free", **accounts(7, usd=0.25)), "fake 1", "other"
        ),
    }
    with opened("any row") as cache:
        assert cache.store(rows) == rows
        assert cache.find([*rows, key(9)]) == rows
    with opened("another model") as cache:
        assert cache.find(rows) == {}


def test_the_first_writer_wins_and_a_damaged_row_is_replaced(control: Control) -> None:
    with opened("first") as one, opened("first") as other:
        one.store({key(1): row("first")})
        assert other.store({key(1): row("second"), key(2): row("new")}) == {
            key(1): row("first"),
            key(2): row("new"),
        }
        one._store.run(
            lambda c: c.execute("update generations set text = ? where key = ?", [b"damaged", key(1)])
        )
        assert other.find([key(1)]) == {}
        assert other.store({key(1): row("again")}) == {key(1): row("again")}


def test_a_transaction_that_the_server_refuses_leaves_the_cache_usable(control: Control) -> None:
    with opened("refusing") as cache, opened("refusing") as other:
        with pytest.raises(LakeError, match="row cache in Postgres: division by zero"):
            cache._store.write(lambda connection: connection.execute("select 1 / 0"))
        assert cache.store({key(1): row("one")}) == {key(1): row("one")}
        assert other.store({key(2): row("two")}) == {key(2): row("two")}  # no lock is left


def test_a_small_race_of_the_caches_finds_all_rows(control: Control) -> None:
    assert race_caches(os.environ[DATABASE], n_rows=40, per_batch=20) > 0


def test_a_batch_waits_for_another_of_the_same_rows_and_gives_those_back(control: Control) -> None:
    rows = {key(2): row("later"), key(1): row("later")}
    with opened("orders") as one, opened("orders") as other, ThreadPoolExecutor(1) as pool:

        def hold(connection: postgres.Connection) -> Future[dict[bytes, CachedRow]]:
            insert(connection, key(1))
            storing = pool.submit(other.store, rows)
            time.sleep(0.3)
            insert(connection, key(2))
            return storing

        storing = one._store.write(hold)
        assert storing.result() == dict.fromkeys(rows, row("first"))


def insert(connection: postgres.Connection, of_key: bytes) -> None:
    columns = row_cache._values(of_key, row("first"))
    connection.execute("insert into generations values (?, ?, ?, ?, ?)", columns)


def test_a_restart_of_the_server_is_waited_for(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE_S", 0.2)
    with opened("restart") as cache:
        cache.store({key(1): row("before")})
        control("stop")
        storing = threading.Thread(target=cache.store, args=({key(2): row("after")},))
        storing.start()
        storing.join(1.0)
        assert storing.is_alive()
        control("start")
        storing.join(30.0)
        assert not storing.is_alive()
        assert cache.find([key(1), key(2)]).keys() == {key(1), key(2)}
    assert "does not answer; waiting" in caplog.text


def test_settings_of_the_role_do_not_end_a_batch_that_waits_for_another_process(
    control: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE_S", 0.2)
    with opened("settings") as cache:
        for setting, value in (
            ("statement_timeout", "700"), ("lock_timeout", "300"), ("synchronous_commit", "off"),
            ("default_transaction_isolation", "serializable"), ("default_transaction_read_only", "on"),
        ):  # fmt: skip
            cache._store.run(lambda c, s=setting, v=value: c.execute(f"alter role longtail set {s} = '{v}'"))
    try:
        with opened("settings") as one, opened("settings") as other:
            shown = one._store.run(lambda c: c.execute("show synchronous_commit").fetchone())
            assert shown == ("on",)
            storing = threading.Thread(target=other.store, args=({key(1): row("waited")},))

            def hold(connection: postgres.Connection) -> None:
                connection.execute("lock table generations in exclusive mode")
                storing.start()
                storing.join(2.5)
                assert storing.is_alive()

            one._store.write(hold)
            storing.join(10.0)
            assert one.find([key(1)]) == {key(1): row("waited")}
            one.note_loss("partition", "run", 0.5)
            assert one.lost_usd("partition") == 0.5
    finally:
        with contextlib.closing(postgres.connect(os.environ[DATABASE])) as raw:
            raw.execute("begin; set transaction read write; alter role longtail reset all; commit")
    assert "another process keeps it locked" in caplog.text


def test_a_role_that_may_not_create_a_schema_is_refused_before_a_run(control: Control) -> None:
    address = os.environ[DATABASE]
    with opened("rights") as cache:
        cache._store.run(lambda c: c.execute("create role reader login"))
    with pytest.raises(LakeError, match="grant it CREATE on the database"):
        postgres.check_postgres(address.replace("longtail@", "reader@"))
    postgres.check_postgres(address)


def test_results_of_sqlite_are_merged_into_it(
    control: Control, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    identity = Identity("merged", "float32", "none", "fake", "1")
    with monkeypatch.context() as patch:
        patch.delenv(DATABASE)
        with RowCache(tmp_path, identity, LOG) as cache:
            cache.store({key(number): row(str(number)) for number in range(700)})
    assert merge(tmp_path, tmp_path, LOG) == 700
    with RowCache(tmp_path, identity, LOG) as cache:
        assert len(cache.find(map(key, range(700)))) == 700


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://me:secret@127.0.0.1:1/none", "127.0.0.1"),
        ("postgresql://me:x@secret@127.0.0.1/none", "is not of the form"),
        ("postgresql://me:x/secret@127.0.0.1/none", "is not of the form"),
        ("postgresql://me:secret%ff@127.0.0.1/none", "is not of the form"),
        ("secret of some other kind", "is not of the form postgresql://user:password@host/database"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_one_line_without_its_password(
    monkeypatch: pytest.MonkeyPatch, address: str, said: str
) -> None:
    monkeypatch.setenv(DATABASE, address)
    (need,) = [one for one in needs_of_models(load_study(DEFAULT_STUDY_FILE)) if one.where == DATABASE]
    with pytest.raises(LakeError) as missing:
        need.check()
    with pytest.raises(LakeError) as refused, opened("refused"):
        pass
    for error in (missing, refused):
        assert said in str(error.value)
        assert "secret" not in str(error.value)
        assert "\n" not in str(error.value)
