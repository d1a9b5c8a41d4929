"""The report in Dagster: plots and numbers on the marts, links to the pages."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from dagster_project.defs.report import observations, report_metadata
from longtail.report.report import ReportFiles


def files(folder: Path) -> ReportFiles:
    picture = folder / "figures" / "scaling.png"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG")
    report = folder / "report.html"
    report.write_text("<!doctype html>")
    return ReportFiles(
        path=report,
        n_bytes=15,
        seconds=1.5,
        pictures={"scaling": picture, "headline": picture},
        plotted_on={"scaling": "fct_accuracy_by_popularity_level"},
        missing={"sampling": "Not shown: table fct_sampling of this study has no rows."},
        numbers={"accuracy/s/bm25": 0.75, "adaptive_gain/s/bm25": 0.05},
        n_figures=2,
        answers=folder / "answers.html",
    )


def test_headline_numbers_are_time_series_and_pages_are_linked(tmp_path: Path) -> None:
    written = files(tmp_path)
    metadata = report_metadata(written, tmp_path / "docs.html")
    assert metadata["accuracy/s/bm25"] == 0.75
    assert metadata["report"] == dg.MetadataValue.path(written.path)
    assert metadata["answers"] == dg.MetadataValue.path(written.answers)
    assert "docs" not in metadata
    assert "fct_sampling" in metadata["not_shown"].value
    (tmp_path / "docs.html").write_text("")
    assert report_metadata(written, tmp_path / "docs.html")["docs"] == dg.MetadataValue.path(
        tmp_path / "docs.html"
    )


def test_marts_get_their_plots_and_numbers(tmp_path: Path) -> None:
    found = {"/".join(one.asset_key.path): one.metadata for one in observations(files(tmp_path))}
    assert set(found) == {
        "marts/fct_accuracy_by_popularity_level",
        "marts/fct_accuracy",
        "marts/fct_adaptive_accuracy",
    }
    plot = found["marts/fct_accuracy_by_popularity_level"]["plot_scaling"]
    assert plot.value == "![scaling](data:image/png;base64,iVBORw==)"
    assert found["marts/fct_accuracy"]["accuracy/s/bm25"].value == 0.75
    assert found["marts/fct_adaptive_accuracy"]["adaptive_gain/s/bm25"].value == 0.05
