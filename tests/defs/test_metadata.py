"""Metadata in Dagster: plots and numbers on the marts, links to the pages, and labels from outside that stay text."""

from __future__ import annotations

import errno
import importlib
import sqlite3
from pathlib import Path
from types import ModuleType

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.defs.results import clear_errors, markdown_table, metadata
from longtail.errors import LakeError
from longtail.report.report import ReportFiles
from longtail.storage.home import DEFAULT_STUDY_FILE, longtail_home
from longtail.storage.lake import Lake, Outcome
from longtail.storage.lake_files import Stamp
from tests.in_process_dbt import put_parsed


@pytest.fixture(scope="module")
def report() -> ModuleType:
    """Dagster's assets of the report. To import them parses the dbt project, unless that is done."""
    put_parsed(longtail_home(), DEFAULT_STUDY_FILE)
    return importlib.import_module("dagster_project.defs.warehouse")


def files(folder: Path) -> ReportFiles:
    picture = folder / "figures" / "accuracy_by_popularity.png"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG")
    report = folder / "report.html"
    report.write_text("<!doctype html>")
    return ReportFiles(
        path=report,
        n_bytes=15,
        seconds=1.5,
        pictures={"accuracy_by_popularity": picture},
        missing={"sampling": "Not shown: table fct_sampling of this study has no rows."},
        numbers={"accuracy/s/bm25": 0.75, "adaptive_gain/s/bm25": 0.05},
        n_figures=2,
        answers=folder / "answers.html",
    )


def test_headline_numbers_are_time_series_and_pages_are_linked(report: ModuleType, tmp_path: Path) -> None:
    written = files(tmp_path)
    metadata = report.report_metadata(written, tmp_path / "docs.html")
    assert metadata["accuracy/s/bm25"] == 0.75
    assert metadata["report"] == dg.MetadataValue.path(written.path)
    assert metadata["answers"] == dg.MetadataValue.path(written.answers)
    assert "docs" not in metadata
    assert "fct_sampling" in metadata["not_shown"].value
    (tmp_path / "docs.html").write_text("")
    assert report.report_metadata(written, tmp_path / "docs.html")["docs"] == dg.MetadataValue.path(
        tmp_path / "docs.html"
    )


def test_marts_get_their_plots_and_numbers(report: ModuleType, tmp_path: Path) -> None:
    found = {"/".join(one.asset_key.path): one.metadata for one in report.observations(files(tmp_path))}
    assert set(found) == {
        "sandbox/marts/fct_accuracy_by_popularity",
        "sandbox/marts/fct_accuracy",
        "sandbox/marts/fct_verdicts",
    }
    plot = found["sandbox/marts/fct_accuracy_by_popularity"]["plot_accuracy_by_popularity"]
    assert plot.value == "![accuracy_by_popularity](data:image/png;base64,iVBORw==)"
    assert found["sandbox/marts/fct_accuracy"]["accuracy/s/bm25"].value == 0.75
    assert found["sandbox/marts/fct_verdicts"]["adaptive_gain/s/bm25"].value == 0.05


def test_tokens_and_dollars_of_several_partitions_are_summed_for_the_plots(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.path("answers", "m|bm25").parent.mkdir()
    pq.write_table(pa.table({"prediction": ["x"]}), lake.path("answers", "m|bm25"))
    notes = ({"cost_usd": 0.5, "new_tokens": 3, "accuracy": 0.5}, {"cost_usd": None, "new_tokens": 4})
    outcomes = [
        Outcome("answers", f"m|{method}", Stamp("f", "c", 1, 0), was_current=False, notes=of)
        for method, of in zip(("bm25", "dense"), notes, strict=True)
    ]
    shown = {name: value for name, value in metadata(lake, outcomes).items() if name.startswith("note_")}
    assert shown == {"note_cost_usd": 0.5, "note_new_tokens": 7}


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        sqlite3.OperationalError("database or disk is full"),
        LakeError("answers.parquet: could not be written (No space left on device)"),
    ],
)
def test_a_full_disk_fails_with_one_line_that_says_what_to_do(error: Exception) -> None:
    with pytest.raises(dg.Failure) as failed, clear_errors():
        raise error
    assert failed.value.description is not None
    assert failed.value.description.endswith("make room and run again: finished work is kept")
    assert "\n" not in failed.value.description


def test_a_bug_keeps_its_trace() -> None:
    with pytest.raises(PermissionError), clear_errors():
        raise PermissionError(errno.EACCES, "Permission denied")


def test_markup_in_a_label_is_escaped() -> None:
    table = markdown_table([{"label": "<script>alert(1)</script> | [a](javascript:b) `c` *d*", "n": 2}])
    assert (
        table.splitlines()[-1] == r"| \<script\>alert(1)\</script\> \| \[a\](javascript:b) \`c\` \*d\* | 2 |"
    )


@given(st.lists(st.text(max_size=200), min_size=1, max_size=5))
def test_any_text_stays_in_its_cell(labels: list[str]) -> None:
    lines = markdown_table([{"label": label} for label in labels]).split("\n")
    assert len(lines) == 2 + len(labels)
    for line in lines[2:]:
        inner = line[2:-2]
        assert line.startswith("| ")
        assert line.endswith(" |")
        assert "|" not in inner.replace("\\\\", "").replace("\\|", "")
