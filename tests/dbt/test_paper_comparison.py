"""paper_comparison beside the marts that it reads."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from longtail.study.study import Study
from tests.warehouses import AWKWARD, UNANSWERED, built_study, mart

OURS = ["dataset", "prompt", "model", "method"]


@pytest.fixture(scope="module")
def study() -> Iterator[Study]:
    with pytest.MonkeyPatch.context() as patch:
        yield built_study(AWKWARD, patch)


@pytest.fixture(scope="module")
def cells(study: Study) -> pd.DataFrame:
    """Those of one of two datasets of PopQA's relations."""
    return mart(study, "paper_comparison").query("dataset == 'popqa'")


def one(cells: pd.DataFrame, item: str, row: str, column: str) -> pd.DataFrame:
    return cells[(cells.item == item) & (cells.cell == f"{row}: {column}")]


def test_an_accuracy_stands_beside_those_of_all_models_and_prompts(study: Study, cells: pd.DataFrame) -> None:
    accuracies = mart(study, "fct_accuracy").query("relation == 'all' and method == 'closed_book'")
    wanted = accuracies[accuracies.dataset == "popqa"].set_index(OURS).sort_index()
    found = one(cells, "section 4.2", "GPT-3 davinci-003", "accuracy").set_index(OURS).sort_index()
    assert len(found) == 8  # four models, two prompts
    assert (found.paper == 0.35).all()
    for ours, theirs in (("ours", "accuracy"), ("ci_low", "ci_low"), ("ci_high", "ci_high"), ("n", "n")):
        pd.testing.assert_series_equal(found[ours], wanted[theirs], check_names=False)


def test_quadrants_have_their_own_names_and_no_bound(study: Study, cells: pd.DataFrame) -> None:
    quadrants = mart(study, "fct_retrieval_quadrants").query(
        "dataset == 'popqa' and parametric_method == 'closed_book' and retrieval_method == 'bm25'"
    )
    for name, memory, passage in (("memory alone right", True, False), ("passage alone right", False, True)):
        own = quadrants[(quadrants.parametric_correct == memory) & (quadrants.retrieval_correct == passage)]
        found = one(cells, "Table 1", name, "share of questions").query("method == 'bm25'")
        key = ["prompt", "model"]
        pd.testing.assert_series_equal(
            found.set_index(key).ours.sort_index(), own.set_index(key).share.sort_index(), check_names=False
        )
    assert "oracle" not in set(cells.method)


def test_data_alone_names_no_model_and_a_relation_is_counted(study: Study, cells: pd.DataFrame) -> None:
    asked = mart(study, "dim_questions").query("dataset == 'popqa'").relation.value_counts()
    found = cells[(cells.work == "PopQA-TP") & cells.cell.str.endswith(": questions")]
    found = found.set_index(found.cell.str.removesuffix(": questions"))
    assert not found[["model", "method", "prompt"]].notna().any(axis=None)
    assert found.drop("total").ours.to_dict() == asked.to_dict()
    assert found.ours["total"] == asked.sum()


def test_what_differs_has_a_column_each(study: Study, cells: pd.DataFrame) -> None:
    found = one(cells, "Figure 5", "GPT-J 6B", "accuracy on the 4,000 least popular").set_index(OURS)
    assert not found.is_real.any()
    assert set(found.study) == {"synthetic"}
    assert set(found.note) == {"GPT-J 6B: section 1 says .16"}
    assert set(found.paper_size) == {"4,000"}
    least = mart(study, "fct_accuracy_least_popular").query("abs(share_of_questions - 4000 / 14267) < 0.01")
    least = least.set_index(OURS).loc[found.index]
    declining = [
        "share_declined",
        "accuracy_attempted",
        "accuracy_attempted_ci_low",
        "accuracy_attempted_ci_high",
    ]
    pd.testing.assert_frame_equal(found[declining], least[declining])
    assert 0 < least.share_declined.max() <= 1
    assert (found.has_declines == (found.share_declined > 0)).all()  # this study names no phrases


def test_an_accuracy_from_memory_has_no_passages_and_a_retrieved_one_says_which(cells: pd.DataFrame) -> None:
    assert one(cells, "section 4.2", "GPT-NeoX 20B", "accuracy").passages.isna().all()
    found = one(cells, "Table 1", "both wrong", "share of questions")
    assert set(found.passages) == {f"{method}: Leads, sandbox, verbalised" for method in found.method}
    assert set(found.paper_passages) == {"Contriever, Wikipedia of December 2018"}


def test_every_number_of_a_model_that_declined_says_so(study: Study, cells: pd.DataFrame) -> None:
    asked = mart(study, "fct_accuracy").query("relation == 'all'").set_index(OURS).share_declined
    found = one(cells, "Figure 4", "GPT-3 davinci-003", "correlation with popularity").set_index(OURS)
    pd.testing.assert_series_equal(found.share_declined, asked.loc[found.index])
    assert found.share_declined.max() > 0
    assert found.accuracy_attempted.isna().all()


def test_a_gain_is_what_passages_alone_answer_less_what_memory_alone_answers(cells: pd.DataFrame) -> None:
    gains = one(cells, "section 5.2", "GPT-3 davinci-003", "gain of always retrieving").set_index(OURS).ours
    passage, memory = (
        one(cells, "Table 1", row, "share of questions").set_index(OURS).ours
        for row in ("passage alone right", "memory alone right")
    )
    pd.testing.assert_series_equal(gains, (passage - memory).loc[gains.index], check_names=False)


def test_the_range_of_consistency_is_over_relations(study: Study, cells: pd.DataFrame) -> None:
    means = mart(study, "fct_semantic_consistency").query("relation != 'all' and dataset == 'popqa'")
    wanted = means.groupby(["prompt", "model"]).scons.agg(["min", "max"])
    for end, name in (("lowest", "min"), ("highest", "max")):
        found = (
            cells[cells.cell == f"five models: {end} mean SCons of a relation"]
            .set_index(["prompt", "model"])
            .ours
        )
        pd.testing.assert_series_equal(
            found.sort_index(), wanted[name].dropna().sort_index(), check_names=False
        )
        assert len(found)


def test_without_answers_only_numbers_of_data_and_passages_are_left() -> None:
    with pytest.MonkeyPatch.context() as patch:
        cells = mart(built_study(UNANSWERED, patch), "paper_comparison")
    assert set(cells.cell.str.split(": ").str[1]) <= {"questions", "all wordings", "wordings added", "number", "recall@1",
                                       "cosine of wording and question"}  # fmt: skip
    assert cells.model.isna().all()
