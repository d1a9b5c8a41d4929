"""The row cache: what it gives back, and what it survives."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import threading
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longtail.errors import LongtailError
from longtail.generation.backends.base import CandidateScore, Decoding, Generation, Identity, Scored
from longtail.generation.engine.row_cache import CachedRow, RowCache, merge, row_key
from longtail.generation.engine.task import Request
from longtail.storage import sqlite_file

LOG = logging.getLogger("row_cache")
IDENTITY = Identity("revision", "float32", "none", "fake", "1")
TEXTS = st.text(st.characters(), max_size=40)
NUMBERS = st.integers(0, 2**31)
MAYBE = st.none() | st.floats(0, 1e6)


def row(text: str, origin: str = "origin") -> CachedRow:
    return CachedRow(Generation(text, **accounts(12)), "fake 1", origin)


def accounts(
    number: int, latency: float = 1.5, seconds: float | None = 0.25, usd: float | None = None
) -> Any:
    return {
        "prompt_tokens": number, "new_tokens": 3, "n_truncated_tokens": 0, "latency_ms": latency, "batch_size": 4,
        "shared_tokens": number // 2, "device_seconds": seconds, "cost_usd": usd,
    }  # fmt: skip


def key(number: int) -> bytes:
    return row_key(f"{number:064x}", IDENTITY, Request(Decoding(15)))


def open_cache(folder: Path) -> RowCache:
    return RowCache(folder, IDENTITY, LOG)


SCORES = st.lists(st.builds(CandidateScore, st.floats(allow_nan=False), NUMBERS), max_size=5).map(tuple)
ACCOUNTS = st.tuples(NUMBERS, st.floats(0, 1e9), MAYBE, MAYBE)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NUMBERS, st.tuples(TEXTS | SCORES, ACCOUNTS), max_size=8))
def test_any_text_and_any_scores_come_back(tmp_path_factory: pytest.TempPathFactory, stored: dict) -> None:  # type: ignore[type-arg]
    folder = tmp_path_factory.mktemp("cache")
    rows = {
        key(n): CachedRow(
            (Generation if isinstance(result, str) else Scored)(result, **accounts(*own)), "é", "o"
        )
        for n, (result, own) in stored.items()
    }
    with open_cache(folder) as cache:
        assert cache.store(rows) == rows
    with open_cache(folder) as cache:
        assert cache.find([*rows, key(-1)]) == rows


def test_what_a_service_says_comes_back_and_only_what_it_says_is_kept(tmp_path: Path) -> None:
    said = {
        "reasoning_tokens": 2, "reasoning_usd": 0.5, "served_model": "m", "finish_reason": "length", "refusal": "No.",
        "reasoning": "hm \ud800", "has_text": False,
    }  # fmt: skip
    rows = {key(0): CachedRow(Generation("", **accounts(12), **said), "e", "o"), key(1): row("plain")}
    with open_cache(tmp_path) as cache:
        cache.store(rows)
        path = cache.path
    with open_cache(tmp_path) as cache:
        assert cache.find(rows) == rows
    with closing(sqlite3.connect(path)) as connection:
        kept = dict(connection.execute("select key, accounts from generations").fetchall())
    assert json.loads(kept[key(0)]).keys() - json.loads(kept[key(1)]).keys() == said.keys()
    assert json.loads(kept[key(1)]).keys() == {*accounts(12), "engine"} - {"cost_usd"}


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=3).map(tuple), unique=True, max_size=9))
@example([("a", "b"), ("b", "a"), ("ab",)])  # scores stand in the candidates' order
def test_other_candidates_have_other_keys(candidates: list[tuple[str, ...]]) -> None:
    keys = {row_key("a", IDENTITY, Request(candidates=some)) for some in candidates}
    assert len(keys) == len(candidates)


def test_what_is_stored_is_on_the_disk(tmp_path: Path) -> None:
    """Level full: a power cut after a paid answer loses nothing, and a rolled back batch leaves no torn page."""
    with open_cache(tmp_path) as cache:
        assert cache._store.run(lambda connection: connection.execute("pragma synchronous").fetchone()) == (
            2,
        )
        assert cache._store.run(lambda connection: connection.execute("pragma journal_mode").fetchone()) == (
            "delete",
        )


def test_rows_of_another_format_count_as_missing(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.store({key(1): row("kept"), key(2): row("old")})
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        query = "select text, accounts, origin from generations where key = ?"
        text, accounts, origin = connection.execute(query, [key(2)]).fetchone()
        changed = json.dumps(json.loads(accounts) | {"joules": 3}).encode()
        checksum = zlib.crc32(b"\0".join((key(2), text, changed, origin)))
        update = "update generations set accounts = ?, checksum = ? where key = ?"
        connection.execute(update, (changed, checksum, key(2)))
    with open_cache(tmp_path) as cache:
        assert cache.find([key(1), key(2)]) == {key(1): row("kept")}
        assert cache.store({key(2): row("new")}) == {key(2): row("new")}
        assert cache.find([key(2)]) == {key(2): row("new")}


def test_the_first_writer_wins(tmp_path: Path) -> None:
    with open_cache(tmp_path) as one, open_cache(tmp_path) as two:
        one.store({key(1): row("first")})
        assert two.store({key(1): row("second"), key(2): row("new")}) == {
            key(1): row("first"),
            key(2): row("new"),
        }


@pytest.mark.parametrize("damage", ["header", "no database", "pages", "empty", "other schema"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    rows = {key(i): row("x" * 500 + str(i)) for i in range(200)}
    with open_cache(tmp_path) as cache:
        cache.store(rows)
        path = cache.path
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[:100] = b"\xff" * 100
    elif damage == "no database":
        content = bytearray(b"this is a text file, of more than a hundred bytes. " * 40)
    elif damage == "pages":
        content[4096:] = b"\xa5" * (len(content) - 4096)
    elif damage == "empty":
        content = bytearray()
    path.write_bytes(bytes(content))
    if damage == "other schema":
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute("create table generations (something)")
        connection.close()
    with open_cache(tmp_path) as cache:
        assert cache.find(rows) == {}
        cache.store(rows)
        assert cache.find(rows) == rows
    if damage != "empty":
        assert "set aside" in caplog.text
        assert len(list(tmp_path.glob("*.damaged-*"))) == 1


def test_damage_that_sqlite_does_not_notice_is_computed_again(tmp_path: Path) -> None:
    rows = {key(i): row(f"marker{i}") for i in range(3)}
    with open_cache(tmp_path) as cache:
        cache.store(rows)
    cache.path.write_bytes(cache.path.read_bytes().replace(b"marker1", b"Marker1"))
    with open_cache(tmp_path) as cache:
        assert cache.find(rows) == {key(0): rows[key(0)], key(2): rows[key(2)]}
        assert cache.store({key(1): rows[key(1)]}) == {key(1): rows[key(1)]}
        assert cache.find(rows) == rows


def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.store({key(1): row("kept")})
        cache._store.run(lambda database: database.execute("pragma max_page_count = 8"))
        with pytest.raises(LongtailError, match=r"the disk is full; .* free space") as caught:
            cache.store({key(i): row("x" * 5_000) for i in range(2, 90)})
        assert "\n" not in str(caught.value)
    with open_cache(tmp_path) as cache:
        assert cache.find(key(i) for i in range(90)) == {key(1): row("kept")}


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(LongtailError, match=r"file/cache/.*: could not be used"),
        open_cache(tmp_path / "file" / "cache"),
    ):
        pass


def test_losses_add_up_over_the_runs_of_a_partition(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        assert cache.lost_usd("a") == 0.0
        cache.note_loss("a", "run 1", 0.5)
        cache.note_loss("a", "run 1", 0.25)
        cache.note_loss("b", "run 1", 8.0)
    with open_cache(tmp_path) as cache:
        cache.note_loss("a", "run 2", 1.0)
        assert cache.lost_usd("a") == 1.25


def test_a_lock_is_waited_for_as_long_as_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was computed or paid for is not given up, and nothing more is asked for meanwhile."""
    monkeypatch.setattr(sqlite_file, "PATIENCE_S", 0.01)
    with open_cache(tmp_path) as cache, closing(sqlite3.connect(cache.path, isolation_level=None)) as holder:
        holder.execute("begin immediate")
        writer = threading.Thread(target=cache.store, args=({key(1): row("paid")},))
        writer.start()
        while "another process has kept it locked for 0.01 s; waiting for it" not in caplog.text:
            writer.join(0.01)
            assert writer.is_alive()
        holder.execute("commit")
        writer.join()
        assert cache.find([key(1)]) == {key(1): row("paid")}


def test_merging_keeps_what_is_there_and_leaves_out_damaged_rows(tmp_path: Path) -> None:
    with open_cache(tmp_path / "here") as here:
        here.store({key(1): row("first here"), key(4): row("damaged here")})
    with open_cache(tmp_path / "there") as there:
        there.store({key(number): row(f"there {number}") for number in (1, 2, 3, 4)})
    for cache, number in ((there, 3), (here, 4)):
        with closing(sqlite3.connect(cache.path)) as connection, connection:
            connection.execute("update generations set text = ? where key = ?", (b"flipped", key(number)))
    (tmp_path / "there/killed_early.sqlite").touch()
    assert merge(tmp_path / "here", tmp_path / "there", LOG) == 3
    assert merge(tmp_path / "here", tmp_path / "there", LOG) == 3
    with open_cache(tmp_path / "here") as here:
        found = here.find([key(number) for number in (1, 2, 3, 4)])
    assert {one: found[one].result.text for one in found} == {
        key(1): "first here", key(2): "there 2", key(4): "there 4"
    }  # fmt: skip


def test_a_copy_of_a_cache_whose_process_was_killed_is_merged(tmp_path: Path) -> None:
    with open_cache(tmp_path / "there") as there:
        there.store({key(number): row(f"there {number}") for number in (1, 2)})
    with closing(sqlite3.connect(there.path, isolation_level=None)) as connection:
        connection.execute("pragma cache_size = 1")  # so that the change reaches the file before its end
        connection.execute("begin")
        connection.execute("update generations set text = zeroblob(100000)")
        shutil.copytree(tmp_path / "there", tmp_path / "copy")
        connection.execute("rollback")
    assert {path.suffix for path in (tmp_path / "copy").iterdir()} > {".sqlite"}
    assert merge(tmp_path / "here", tmp_path / "copy", LOG) == 2


def test_what_cannot_be_merged_is_named_and_harms_nothing(tmp_path: Path) -> None:
    with open_cache(tmp_path / "here") as here:
        here.store({key(1): row("kept")})
    (tmp_path / "empty").mkdir()
    with pytest.raises(LongtailError, match=r"here: this is the machine's own row cache"):
        merge(tmp_path / "here", tmp_path / "empty" / ".." / "here", LOG)
    with pytest.raises(LongtailError, match=r"empty: no row cache"):
        merge(tmp_path / "here", tmp_path / "empty", LOG)
    broken = tmp_path / "broken" / here.path.name
    broken.parent.mkdir()
    broken.write_bytes(b"no database " * 100)
    with pytest.raises(LongtailError, match=rf"{broken.name}: .*copy it again"):
        merge(tmp_path / "here", broken.parent, LOG)
    with open_cache(tmp_path / "here") as here:
        assert here.find([key(1)])[key(1)].result.text == "kept"
