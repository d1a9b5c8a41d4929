"""Flipped bits in the lake: none is read as other rows, and the stage makes a damaged partition again."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import LakeError
from longtail.storage.lake import Computed, Lake, QuarantinedRow

MONTH = "2026-10"
ROW = {"entity_id": "Q1", "article_title": "Ada", "month": MONTH, "views": 12, "source": "sandbox"}
ROWS = [{**ROW, "entity_id": f"Q{number}"} for number in range(4)]
ASIDE = QuarantinedRow("Q9", "no article", "raw")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.write("page_views", ROWS, fingerprint="f", partition=MONTH, quarantined=[ASIDE])
    return lake


def flips(path: Path, step: int = 1) -> Iterator[int]:
    """Flip a bit in every `step`th byte of a file, one after the other; yields its place. Then the file is as it was."""
    whole = path.read_bytes()
    for place in range(0, len(whole), step):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        os.utime(path, ns=(place, place))  # a clock may be too coarse to tell two of these writes apart
        yield place
    path.write_bytes(whole)


def flip(path: Path, place: int = 40) -> None:
    whole = bytearray(path.read_bytes())
    whole[place] ^= 4
    path.write_bytes(whole)


def read_or_none(lake: Lake, table: str, partition: str) -> list[dict[str, Any]] | None:
    try:
        lake.content(table, partition)
        return lake.read(table, partition).to_pylist()
    except LakeError as error:
        said = str(error)
    assert said.startswith(f"{lake.path(table, partition)} ")
    assert f"; materialise asset lake/page_views, partition {MONTH}, again" in said
    return None


@pytest.mark.parametrize(
    ("table", "partition"), [("page_views", MONTH), ("quarantine", f"page_views|{MONTH}")]
)
def test_no_flipped_bit_is_read_as_other_rows(lake: Lake, table: str, partition: str) -> None:
    """In pages, their headers, the footer with its statistics, the stamp and the checksum itself."""
    rows, path = lake.read(table, partition).to_pylist(), lake.path(table, partition)
    for place in flips(path):
        assert read_or_none(lake, table, partition) is None, place
        assert lake.current("page_views", "f", MONTH) is None, place
    assert lake.read(table, partition).to_pylist() == rows
    assert lake.current("page_views", "f", MONTH)
    lake.require_intact()


def test_no_flipped_bit_stays_in_a_file_without_rows(lake: Lake) -> None:
    lake.ensure_schemas()
    path = lake.path("datasets", "_schema")
    whole = path.read_bytes()
    for _ in flips(path, step=149):
        lake.ensure_schemas()
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("table", "partition"), [("page_views", MONTH), ("quarantine", f"page_views|{MONTH}")]
)
def test_a_damaged_partition_is_made_again_and_the_log_says_so_once(
    lake: Lake, caplog: pytest.LogCaptureFixture, table: str, partition: str
) -> None:
    before = lake.path(table, partition).read_bytes()
    flip(lake.path(table, partition))
    outcome = lake.materialise("page_views", "f", lambda: Computed(ROWS, [ASIDE]), MONTH)
    assert not outcome.was_current
    assert lake.path(table, partition).read_bytes() == before
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"{lake.path(table, partition)} is damaged: checksum mismatch; lake/page_views makes it again"
    ]


def test_a_damaged_input_is_refused_however_it_is_read(lake: Lake) -> None:
    lake.write("questions", [], fingerprint="f")
    flip(lake.path("questions"))
    for use in (lake.content, lake.read, lake.read_all, lambda table: next(lake.batches(table))):
        with pytest.raises(LakeError, match="checksum mismatch; materialise asset lake/questions again"):
            use("questions")
    with pytest.raises(LakeError, match="lake/questions again"):
        lake.require_intact()


def test_damaged_partitions_are_removed_before_a_stage_reads_their_table(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("answers", "questions"):
        lake.write(name, [], fingerprint="f", partition="whole")
    damaged = [
        lake.path(table, partition)
        for table, partition in (("answers", "whole"), ("quarantine", f"page_views|{MONTH}"))
    ]
    for path in damaged:
        flip(path)
    lake.discard_damage()
    assert [path.exists() for path in damaged] == [False, False]
    assert {record.getMessage() for record in caplog.records} == {
        f"{path} is damaged: checksum mismatch; lake/{maker} makes it again"
        for path, maker in zip(damaged, ("answers", "page_views"), strict=True)
    }
    lake.require_intact()
    assert lake.current("page_views", "f", MONTH) is None, "its quarantine is gone"
    assert lake.current("questions", "f", "whole")
