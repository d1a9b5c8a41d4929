"""docs/paper_comparison.md: which study stands for a cell, and that the page has the papers' numbers."""

from __future__ import annotations

import csv
from typing import Any

import duckdb
import pytest

from dagster_project.core.storage.home import PROJECT_ROOT
from tests.claims.paper_comparison import CELLS, PLACE, chosen, page, shown

PAGE = (PROJECT_ROOT / PLACE).read_text(encoding="utf-8")
COLUMNS = (
    "work", "item", "cell", "paper", "ours", "n", "ci_low", "ci_high", "study", "is_real", "measure", "paper_model",
    "dataset", "prompt", "model", "method", "reason",
)  # fmt: skip
ACCURACY = dict(
    zip(
        COLUMNS,
        ("PopQA", "section 4.2", "GPT-NeoX 20B: accuracy", 0.25, 0.5, 10, 0.2, 0.8, "real", True, "accuracy",
         "gpt_neox_20b", "d", "p", "m", "closed_book", "m instead of gpt_neox_20b"),
        strict=True,
    )
)  # fmt: skip


def warehouse(*rows: dict[str, Any], sizes: dict[str, int]) -> duckdb.DuckDBPyConnection:
    marts = duckdb.connect()
    marts.execute("create table dim_models (model varchar, n_parameters bigint)")
    for pair in sizes.items():
        marts.execute("insert into dim_models values (?, ?)", pair)
    marts.execute(
        "create table paper_comparison (work varchar, item varchar, cell varchar, paper double, ours double, n bigint, "
        "ci_low double, ci_high double, study varchar, is_real boolean, measure varchar, paper_model varchar, "
        "dataset varchar, prompt varchar, model varchar, method varchar, reason varchar)"
    )
    for row in rows:
        marks = ", ".join("?" * len(COLUMNS))
        marts.execute(f"insert into paper_comparison values ({marks})", [row[name] for name in COLUMNS])
    return marts


def test_real_comes_before_the_sandbox_and_the_first_study_and_the_largest_model_before_the_rest() -> None:
    sandbox = warehouse({**ACCURACY, "study": "sandbox", "is_real": False, "ours": 0.9}, sizes={"m": 99})
    real = warehouse(ACCURACY, {**ACCURACY, "model": "larger", "ours": 0.6}, sizes={"m": 1, "larger": 2})
    later = warehouse({**ACCURACY, "study": "later", "ours": 0.7}, sizes={"m": 50})
    (cell,) = chosen([sandbox, real, later])
    assert (cell["study"], cell["model"], cell["ours"]) == ("real", "larger", 0.6)


def test_what_is_counted_of_data_alone_comes_from_the_whole_dataset() -> None:
    counted = {**ACCURACY, "model": None, "method": None, "prompt": None, "measure": "n_questions"}
    part = warehouse({**counted, "study": "part", "ours": 5, "reason": "a part of the questions"}, sizes={})
    whole = warehouse({**counted, "study": "whole", "ours": 14267, "ci_low": None, "reason": ""}, sizes={})
    (cell,) = chosen([part, whole])
    assert cell["study"] == "whole"
    assert "| section 4.2 | GPT-NeoX 20B: accuracy | 0 | 14,267 | `whole` (real): `d` | – |" in page(
        [cell]
    ).replace("\u00a0", " ")


def test_the_page_has_the_papers_numbers_and_says_how_many() -> None:
    with CELLS.open(encoding="utf-8") as lines:
        typed = {(row["item"], row["cell"]): float(row["paper"]) for row in csv.DictReader(lines)}
    cells = [*shown(PAGE)]
    assert len(cells) >= 150
    assert f"\n{len(cells)} numbers of the four works" in PAGE
    for where, column, theirs, *_ in cells:
        assert float(theirs.replace(",", "")) == pytest.approx(typed[where, column], abs=5e-4), (
            where,
            column,
        )
