"""The headline: rows that agree with the marts, aligned text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longtail.errors import PublishError
from longtail.methods import METHODS
from longtail.warehouse.headline import headline, render_headline
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
        key = tuple(row[name] for name in ("dataset", "prompt", "model", "method"))
        assert (row["n"], row["accuracy"]) == (keyed.loc[key].n, keyed.loc[key].accuracy)
        if METHODS[row["method"]].is_parametric:
            assert row["accuracy_adaptive"] is row["accuracy_always"] is row["accuracy_never"] is None
        else:
            assert row["accuracy_adaptive"] == adaptive.loc[key].accuracy_adaptive
    assert [row["method"] for row in rows[:4]] == ["closed_book", "genread", "bm25", "oracle"]
    lines = render_headline(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert lines[0].split()[:4] == ["dataset", "prompt", "model", "method"]
    assert f"{rows[0]['accuracy']:.3f}" in lines[2]
    first = rows[0]["dataset"], rows[0]["prompt"]
    alone = render_headline([row for row in rows if (row["dataset"], row["prompt"]) == first])
    assert alone.split()[:2] == ["model", "method"]


def headline_row(**columns: Any) -> dict[str, Any]:
    named = ("share_declined", "accuracy_attempted", "pearson_binned", "share_retrieved")
    unknown = dict.fromkeys((*named, "accuracy_adaptive", "accuracy_always", "accuracy_never"))
    known = {"dataset": "d", "prompt": "p", "model": "m", "method": "closed_book", "n": 500, "accuracy": 0.3}
    return {**known, "ci_low": 0.2, "ci_high": 0.4, **unknown, **columns}


def test_texts_are_aligned_to_the_left_and_numbers_to_the_right() -> None:
    rows = [
        headline_row(model="small", n=14267, accuracy=0.5, ci_low=0.45, ci_high=0.55, pearson_binned=-0.25),
        headline_row(
            method="bm25", n=9, accuracy=0.25, ci_low=0.1, ci_high=0.5, accuracy_adaptive=0.625,
            accuracy_always=0.25, accuracy_never=0.5, share_retrieved=0.375,
        ),
    ]  # fmt: skip
    assert render_headline(rows).splitlines() == [
        "model  method            n  accuracy   95 % interval  r(popularity)  adaptive  always  never  retrieved",
        "-------------------------------------------------------------------------------------------------------",
        "small  closed_book  14,267     0.500  0.450 to 0.550         -0.250",
        "m      bm25              9     0.250  0.100 to 0.500                    0.625   0.250  0.500        38%",
    ]


def test_declined_answers_stand_beside_the_accuracy() -> None:
    rows = [
        headline_row(ci_low=0.26, share_declined=0.436, accuracy_attempted=0.535),
        headline_row(method="oracle", ci_low=0.8, ci_high=0.9),
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
