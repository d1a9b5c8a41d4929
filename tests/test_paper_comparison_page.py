"""docs/paper_comparison.md: which study stands for a cell, and that the page has the papers' numbers, declining first."""

from __future__ import annotations

import csv
import re
from typing import Any

import pandas as pd
import pytest

from longtail.storage.home import PROJECT_ROOT
from tools.pages.paper_comparison import CELLS, PLACE, RESULTS, chosen, page, shown

PAGE = (PROJECT_ROOT / PLACE).read_text(encoding="utf-8")
ACCURACY: dict[str, Any] = {
    "work": "PopQA", "item": "section 4.2", "cell": "GPT-NeoX 20B: accuracy", "ours": 0.5, "ci_low": 0.2, "ci_high": 0.8,
    "n": 10, "accuracy_attempted": 0.625, "accuracy_attempted_ci_low": 0.3, "accuracy_attempted_ci_high": 0.9,
    "study": "real", "is_real": True, "model": "m", "n_parameters": 1_340_000_000, "share_declined": 0.2,
    "has_declines": True, "prompt": "p", "dataset": "d", "is_part": True, "method": "closed_book", "passages": None,
}  # fmt: skip


def study(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{**ACCURACY, **row} for row in rows])


def test_real_comes_before_the_sandbox_and_the_largest_model_before_the_rest() -> None:
    sandbox = study({"study": "sandbox", "is_real": False, "ours": 0.9, "n_parameters": 9e9})
    real = study({}, {"model": "larger", "n_parameters": 2e9, "ours": 0.6})
    later = study({"study": "later", "n_parameters": 3e8, "ours": 0.7})
    for order in ([sandbox, real, later], [later, real, sandbox]):
        (cell,) = chosen(order).to_dict("records")
        assert (cell["study"], cell["model"], cell["ours"]) == ("real", "larger", 0.6)


def test_what_is_counted_of_data_alone_comes_from_the_whole_dataset() -> None:
    counted = {"item": "appendix B", "cell": "questions asked: number", "model": None, "n_parameters": None,
               "share_declined": None, "has_declines": None, "ci_low": None}  # fmt: skip
    part, whole = {"study": "part", "ours": 5.0}, {"study": "whole", "ours": 14267.0, "is_part": False}
    cells = chosen([study({**counted, **part}), study({**counted, **whole})])
    assert cells.study.tolist() == ["whole"]
    assert "| PopQA, appendix B | questions asked: number | 14,282 | 14,267 | – / 10 of `d` | – |" in page(
        cells
    )


def test_an_accuracy_of_a_model_that_may_decline_says_how_often_and_what_the_rest_has() -> None:
    text = page(chosen([study({})]))
    assert (
        "**1 of 1 cells are real: 1 of `m`, a model of 1.34 billion parameters, which may decline.**" in text
    )
    assert (
        "| PopQA, section 4.2 | GPT-NeoX 20B: accuracy | .250 | .500 (.200 to .800); attempted .625 (.300 to .900) "
        "| – / 10 of `d`, a part | may: 20% | 15-shot, Q: and A: / `p` | – | – |"
    ) in text


@pytest.mark.parametrize(
    ("low", "verdict"), [(0.1, "holds"), (-0.1, "does not hold"), (None, "is undecided")]
)
def test_a_claim_holds_where_its_interval_says_so(low: float | None, verdict: str) -> None:
    cell = {"item": "Figure 4", "cell": "GPT-3 davinci-003: correlation with popularity", "ci_low": low,
            "accuracy_attempted": None}  # fmt: skip
    text = page(chosen([study(cell)])).replace("\n", " ")
    assert f"what a model remembers (Figure 4): **{verdict} " in text
    assert "20% declined, paper .400)." in text


def test_a_claim_that_only_declined_answers_make_true_says_so() -> None:
    accuracy = {"cell": "GPT-3 davinci-003: accuracy", "ci_high": 0.4}
    said = "**holds for `m`, but not over the answers that it attempted**"
    assert said in page(chosen([study(accuracy)])).replace("\n", " ")
    assert said not in page(chosen([study({**accuracy, "accuracy_attempted_ci_high": 0.45})])).replace(
        "\n", " "
    )


def test_a_claim_is_compared_with_its_base() -> None:
    cells = [{"work": "According to", "item": "Table 1", "cell": f"{prompt}: {dataset} QUIP", "ours": ours}
             for dataset, with_none, without in (("TriviaQA", 0.3, 0.2), ("NQ", 0.3, 0.4))
             for prompt, ours in (("no addition", with_none), ("without using any information from Wikipedia", without))
             ]  # fmt: skip
    assert "**holds in 1 of 2 for `m`**" in page(chosen([study(*cells)]))


def test_the_page_has_every_number_of_the_papers_once() -> None:
    with CELLS.open(encoding="utf-8") as lines:
        typed = {
            (f"{row['work']}, {row['item']}", row["cell"]): row["paper"] for row in csv.DictReader(lines)
        }
    filled = [row[1:4] for row in shown(PAGE)]
    last = PAGE.split("\n## Numbers without")[1]
    missing = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| .+ \|$", last, re.MULTILINE)[2:]
    assert f" of {len(filled)} cells are real" in PAGE
    assert len(filled) >= 220
    assert f"{len(missing)} numbers of the papers have no counterpart" in PAGE.replace("\n", " ")
    assert sorted((where, name) for where, name, _ in [*filled, *missing]) == sorted(typed)
    for where, name, theirs in [*filled, *missing]:
        if typed[where, name]:
            value = float(theirs.replace(",", "").replace("−", "-"))
            assert value == pytest.approx(float(typed[where, name]), abs=5e-4 if value < 1000 else 0.5), (
                where,
                name,
            )
        else:
            assert theirs == "–", (where, name)


def test_the_page_is_what_its_results_say_and_no_number_of_llama_70b_hides_what_it_declined() -> None:
    assert page(pd.read_csv(RESULTS)) == PAGE
    rows = [row for heading, *row in shown(PAGE) if "`llama_3_70b`" in heading]
    assert len(rows) == 9
    assert all(re.fullmatch(r"may: \d+%", row[5]) for row in rows)
    assert all("; attempted ." in row[3] for row in rows if "accuracy" in row[1])
