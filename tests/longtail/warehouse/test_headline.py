"""The headline: rows that agree with the marts, aligned text."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.errors import PublishError
from longtail.methods import METHODS
from longtail.warehouse.headline import HeadlineRow, headline, render_headline
from tests.warehouses import AWKWARD, UNANSWERED, mart, published_study


def test_rows_agree_with_the_marts(monkeypatch: pytest.MonkeyPatch) -> None:
    study = published_study(AWKWARD, monkeypatch)
    rows = headline(study.home.published_warehouse)
    accuracy = mart(study, "fct_accuracy").query("relation == 'all'")
    assert len(rows) == len(accuracy)
    keyed = accuracy.set_index(["dataset", "prompt", "model", "method"])
    adaptive = mart(study, "fct_adaptive_accuracy").query(
        "search == 'exact' and threshold_scope == 'per_relation' and parametric_method == 'closed_book'"
    )
    adaptive = adaptive.set_index(["dataset", "prompt", "model", "retrieval_method"])
    for row in rows:
        key = (row.dataset, row.prompt, row.model, row.method)
        assert (row.n, row.accuracy) == (keyed.loc[key].n, keyed.loc[key].accuracy)
        if METHODS[row.method].is_parametric:
            assert row.accuracy_adaptive is row.accuracy_always is row.accuracy_never is None
        else:
            assert row.accuracy_adaptive == adaptive.loc[key].accuracy_adaptive
    assert [row.method for row in rows[:4]] == ["closed_book", "genread", "bm25", "oracle"]
    lines = render_headline(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert lines[0].split()[:4] == ["dataset", "prompt", "model", "method"]
    assert f"{rows[0].accuracy:.3f}" in lines[2]
    alone = render_headline(
        [row for row in rows if (row.dataset, row.prompt) == (rows[0].dataset, rows[0].prompt)]
    )
    assert alone.split()[:2] == ["model", "method"]


def test_texts_are_aligned_to_the_left_and_numbers_to_the_right() -> None:
    rows = [
        HeadlineRow("d", "p", "small", "closed_book", 14267, 0.5, 0.45, 0.55, -0.25, None, None, None, None),
        HeadlineRow("d", "p", "m", "bm25", 9, 0.25, 0.1, 0.5, None, 0.625, 0.25, 0.5, 0.375),
    ]
    assert render_headline(rows).splitlines() == [
        "model  method            n  accuracy   95 % interval  r(popularity)  adaptive  always  never  retrieved",
        "-------------------------------------------------------------------------------------------------------",
        "small  closed_book  14,267     0.500  0.450 to 0.550         -0.250",
        "m      bm25              9     0.250  0.100 to 0.500                    0.625   0.250  0.500        38%",
    ]


def test_declined_answers_stand_beside_the_accuracy() -> None:
    rows = [
        HeadlineRow(
            "d", "p", "m", "closed_book", 500, 0.302, 0.26, 0.34, None, None, None, None, None, 0.436, 0.535
        ),
        HeadlineRow("d", "p", "m", "oracle", 500, 0.874, 0.8, 0.9, None, None, None, None, None, None, None),
    ]
    heading, _, declining, none = render_headline(rows).splitlines()
    assert heading.split()[6:10] == ["interval", "declined", "of", "the"]
    assert declining.split()[-2:] == ["44%", "0.535"]
    assert none.split()[-1] == "0.900"


def test_without_answers_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    study = published_study(UNANSWERED, monkeypatch)
    assert (
        render_headline(headline(study.home.published_warehouse))
        == "The published marts have no answers to questions; table catalogue lists what they have."
    )


def test_a_missing_or_broken_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="nothing is published yet"):
        headline(tmp_path / "warehouse.duckdb")
    (tmp_path / "warehouse.duckdb").write_text("not a database")
    with pytest.raises(PublishError, match="cannot be read"):
        headline(tmp_path / "warehouse.duckdb")
