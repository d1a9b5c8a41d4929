"""The lake: files that are whole or absent, stamps, schemas, quarantine, text of any kind."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import LakeError
from longtail.storage.lake import Computed, Lake, QuarantinedRow, Streamed
from longtail.storage.lake_files import content_hash
from longtail.tables import TABLES, Column
from tests.small_disk import files_up_to

SOME = {
    "subject_id": "Q1",
    "property_id": "P19",
    "object_id": "Q2",
    "relation": "place of birth",
    "source": "sandbox",
    "facts_from": "query_service",
}


def _rows(n: int, **changed: Any) -> list[dict[str, Any]]:
    return [{**SOME, "subject_id": f"Q{number}", **changed} for number in range(1, n + 1)]


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


# Writing and reading -------------------------------------------------------------------------------


def test_written_rows_are_read_back(lake: Lake) -> None:
    stamp = lake.write("triples", _rows(3), fingerprint="f")
    assert lake.read("triples").to_pylist() == _rows(3)
    assert (stamp.fingerprint, stamp.n_rows, stamp.n_quarantined) == ("f", 3, 0)
    assert lake.stamp("triples") == stamp
    assert lake.content("triples") == stamp.content
    assert _files(lake.root) == ["triples/all.parquet"]


def test_partitions_side_by_side(lake: Lake) -> None:
    view = {"entity_id": "Q1", "article_title": "Ada", "views": None, "source": "sandbox"}
    for month in ("2026-09", "2026-10"):
        lake.write("page_views", [{**view, "month": month}], fingerprint=month, partition=month)
    assert lake.partitions("page_views") == ["2026-09", "2026-10"]
    assert lake.read_all("page_views")["month"].to_pylist() == ["2026-09", "2026-10"]
    assert lake.read("page_views", "2026-09", ["views"]).to_pylist() == [{"views": None}]


def test_model_and_method_share_a_file_name(lake: Lake) -> None:
    assert lake.path("answers", "gpt_2|closed_book").name == "gpt_2__closed_book.parquet"


def test_schema_files_give_every_table_its_columns(lake: Lake) -> None:
    lake.ensure_schemas()
    before = {path: path.stat().st_mtime_ns for path in lake.root.rglob("*.parquet")}
    assert len(before) == len(TABLES)
    for name, table in TABLES.items():
        assert pq.read_schema(lake.path(name, "_schema")).equals(table.schema)
        assert lake.partitions(name) == []
        assert lake.read_all(name).num_rows == 0
    lake.ensure_schemas()
    assert {path: path.stat().st_mtime_ns for path in before} == before


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=8))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    rows = [{**SOME, "subject_id": text} for text in texts]
    lake.write("triples", rows, fingerprint="f")
    assert lake.read("triples").to_pylist() == rows


# What does not fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**SOME, "subject_id": None}, "subject_id is null in row 1"),
        ({**SOME, "subject_id": 5}, "do not fit its columns"),
        ({**SOME, "subject_id": "\ud800"}, "do not fit its columns"),
        ({key: value for key, value in SOME.items() if key != "relation"}, "relation is null in row 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused(lake: Lake, row: dict[str, Any], said: str) -> None:
    kept = lake.write("triples", _rows(2), fingerprint="before")
    with pytest.raises(LakeError, match="lake table triples: ") as caught:
        lake.write("triples", [SOME, row], fingerprint="after")
    assert said in str(caught.value)
    assert lake.stamp("triples") == kept
    assert _files(lake.root) == ["triples/all.parquet"]


def test_an_arrow_table_is_checked_too(lake: Lake) -> None:
    table = pa.Table.from_pylist(_rows(2))
    lake.write("triples", table.append_column("extra", pa.array([1, 2])), fingerprint="f")
    assert lake.read("triples").column_names == [column.name for column in TABLES["triples"].columns]
    with pytest.raises(LakeError, match="do not fit"):
        lake.write("triples", table.drop_columns(["relation"]), fingerprint="f")


def test_a_missing_table_names_the_asset_to_materialise(lake: Lake) -> None:
    for ask in (lake.read, lake.content):
        with pytest.raises(
            LakeError, match=r"lake table triples is missing .* materialise asset lake/triples first"
        ):
            ask("triples")
    with pytest.raises(LakeError, match=r"partition m\|bm25 is missing"):
        lake.read("answers", "m|bm25")


# Current or stale ----------------------------------------------------------------------------------


def test_materialise_computes_only_what_is_stale(lake: Lake) -> None:
    calls = []

    def compute() -> Computed:
        calls.append(1)
        return Computed(_rows(2), notes={"n": 2})

    first = lake.materialise("triples", "f1", compute)
    again = lake.materialise("triples", "f1", compute)
    stale = lake.materialise("triples", "f2", compute)
    assert [o.was_current for o in (first, again, stale)] == [False, True, False]
    assert len(calls) == 2
    assert (first.notes, again.notes) == ({"n": 2}, {})
    assert again.stamp == first.stamp
    assert stale.stamp.content == first.stamp.content


def test_streamed_rows_are_one_partition(lake: Lake) -> None:
    def parts(rows: list[dict[str, Any]], size: int) -> Streamed:
        tables = (
            pa.Table.from_pylist(rows[i : i + size], schema=TABLES["triples"].schema)
            for i in range(0, len(rows), size)
        )
        return Streamed(tables)

    stamp = lake.write("triples", parts(_rows(5), 2), fingerprint="f")
    assert lake.read("triples").to_pylist() == _rows(5)
    assert (stamp.n_rows, lake.stamp("triples")) == (5, stamp)
    assert lake.head("triples", "all", 3) == _rows(3)
    assert lake.write("triples", parts(_rows(5), 2), fingerprint="g").content == stamp.content
    assert lake.write("triples", parts(_rows(5)[::-1], 2), fingerprint="g").content != stamp.content
    assert (
        lake.write("triples", parts(_rows(5), 5), fingerprint="g").content
        == lake.write("triples", _rows(5), fingerprint="g").content
    )
    assert lake.write("triples", parts([], 2), fingerprint="g").n_rows == 0
    assert lake.write("triples", Streamed.of("triples", []), fingerprint="g").n_rows == 0
    assert lake.head("triples", "all", 3) == []


def test_a_part_that_does_not_fit_leaves_the_old_partition(lake: Lake) -> None:
    kept = lake.write("triples", _rows(2), fingerprint="before")
    good = pa.Table.from_pylist(_rows(2), schema=TABLES["triples"].schema)
    with pytest.raises(LakeError, match="do not fit its columns"):
        lake.write("triples", Streamed(iter([good, good.select(["source"])])), fingerprint="after")
    assert lake.stamp("triples") == kept
    assert _files(lake.root) == ["triples/all.parquet"]


def test_a_failing_computation_leaves_the_old_partition(lake: Lake) -> None:
    kept = lake.write("triples", _rows(2), fingerprint="before")

    def compute() -> Computed:
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError):
        lake.materialise("triples", "after", compute)
    assert lake.stamp("triples") == kept


def test_the_content_hash_depends_only_on_rows() -> None:
    schema = TABLES["triples"].schema
    table = pa.Table.from_pylist(_rows(3), schema=schema)
    split = pa.concat_tables([table.slice(0, 1), table.slice(1)]).replace_schema_metadata({"note": "x"})
    assert content_hash(table) == content_hash(split)
    reversed_rows = pa.Table.from_pylist(_rows(3)[::-1], schema=schema)
    changed = pa.Table.from_pylist(_rows(3, source="wikidata"), schema=schema)
    assert (
        len(
            {content_hash(table), content_hash(reversed_rows), content_hash(changed), content_hash(table[:2])}
        )
        == 4
    )


def test_the_content_hash_ignores_columns_about_the_run() -> None:
    one = pa.table({"prediction": ["a"], "run_id": ["r1"], "latency_ms": [1.0], "is_reused": [False]})
    other = pa.table({"prediction": ["a"], "run_id": ["r2"], "latency_ms": [9.0], "is_reused": [True]})
    assert content_hash(one) == content_hash(other)
    assert content_hash(one) != content_hash(one.set_column(0, "prediction", pa.array(["b"])))


# Quarantine ----------------------------------------------------------------------------------------


def test_quarantined_rows_are_kept_with_their_reason(lake: Lake) -> None:
    rejected = [QuarantinedRow("line 7\x00", "no label", "raw\x00\x1b[31m\ud800" + "x" * 9_000)]
    stamp = lake.write("triples", _rows(1), fingerprint="f", quarantined=rejected)
    assert stamp.n_quarantined == 1
    (row,) = lake.read_all("quarantine").to_pylist()
    assert (row["table_name"], row["partition"], row["row_key"]) == ("triples", "", "line 7\\x00")
    assert row["raw"].startswith("raw\\x00\\x1b[31m\\ud800xxx")
    assert len(row["raw"]) < 2_100
    lake.write("triples", _rows(1), fingerprint="f2")
    assert lake.partitions("quarantine") == []


def test_quarantines_of_partitions_do_not_mix(lake: Lake) -> None:
    view = {"entity_id": "Q1", "article_title": "Ada", "views": 1, "source": "sandbox"}
    for month in ("2026-09", "2026-10"):
        row = QuarantinedRow("Q2", f"bad in {month}", "")
        lake.write(
            "page_views", [{**view, "month": month}], fingerprint="f", partition=month, quarantined=[row]
        )
    found = {(row["partition"], row["reason"]) for row in lake.read_all("quarantine").to_pylist()}
    assert found == {("2026-09", "bad in 2026-09"), ("2026-10", "bad in 2026-10")}


# Whole or not at all -------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 4_096, 40_000])
def test_a_full_disk_leaves_the_old_partition_and_nothing_else(lake: Lake, limit: int) -> None:
    kept = lake.write("triples", _rows(3), fingerprint="old")
    draw = random.Random(1)
    large = [{**SOME, "subject_id": f"Q{draw.getrandbits(128)}"} for _ in range(20_000)]
    with files_up_to(limit), pytest.raises(LakeError) as caught:
        lake.write("triples", large, fingerprint="new")
    message = str(caught.value)
    assert "could not be written" in message
    assert "what was there is unchanged" in message
    assert "\n" not in message
    assert lake.stamp("triples") == kept
    assert lake.read("triples").num_rows == 3
    assert _files(lake.root) == ["triples/all.parquet"]


def test_leftovers_of_killed_writers_are_removed_at_the_start_of_a_run(lake: Lake) -> None:
    leftover = lake.root / ".staging" / f"{'0a' * 16}.part" / "all.parquet"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")
    lake.ensure_schemas()
    assert not leftover.parent.exists()


def test_a_partition_with_other_columns_is_not_current(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write("triples", _rows(1), fingerprint="f")
    assert lake.current("triples", "f")
    before = TABLES["triples"]
    more = dataclasses.replace(
        before, columns=(*before.columns, Column("added", pa.string(), "new", nullable=True))
    )
    monkeypatch.setitem(TABLES, "triples", more)
    assert lake.current("triples", "f") is None
    monkeypatch.setitem(TABLES, "triples", before)
    assert lake.current("triples", "f")
