"""What cannot be computed is null and says why; what is missing or doubled is counted. No case stops a build."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from longtail.study.study import Study
from tests.edge_lakes import edges_folder
from tests.warehouses import lake_of, mart, study_in

pytestmark = pytest.mark.xdist_group("edges")


@pytest.fixture
def edges(monkeypatch: pytest.MonkeyPatch) -> Study:
    return study_in(edges_folder(), monkeypatch)


def rows_of(study: Study, name: str, query: str) -> pd.DataFrame:
    found = mart(study, name).query(query)
    assert len(found), (name, query)
    return found


@pytest.mark.parametrize("dataset", ["flat", "unknown"])
def test_correlations_without_variance_or_popularity_are_null_with_a_reason(
    edges: Study, dataset: str
) -> None:
    found = rows_of(edges, "fct_popularity_correlation", f"dataset == '{dataset}'")
    assert found[["pearson_binned", "point_biserial", "spearman"]].isna().all(axis=None)
    assert found[["pearson_binned_undefined", "unbinned_undefined"]].notna().all(axis=None)


@pytest.mark.parametrize("model", ["right", "wrong"])
def test_always_right_or_wrong_has_an_accuracy_with_an_interval_and_no_correlation(
    edges: Study, model: str
) -> None:
    found = rows_of(edges, "fct_accuracy", f"model == '{model}'")
    assert set(found.accuracy) == {float(model == "right")}
    assert (found.ci_high.isna() == (found.n_subjects == 1)).all()
    several = found[found.n_subjects > 1]
    assert (several.ci_high - several.ci_low > 0).all()
    assert rows_of(edges, "fct_popularity_correlation", f"model == '{model}'").spearman.isna().all()
    quadrants = rows_of(edges, "fct_retrieval_quadrants", f"model == '{model}'")
    assert quadrants[quadrants.n == 0].recall_at_1.isna().all()
    assert quadrants.groupby(["dataset", "parametric_method", "retrieval_method"]).share.sum().eq(1).all()


def test_right_against_wrong_is_a_difference_of_one_and_equal_sides_have_p_1(edges: Study) -> None:
    compared = mart(edges, "fct_method_comparisons")
    apart = compared.query("model_a == 'right' and model_b == 'wrong'")
    assert len(apart) == 3 * 4
    assert (apart.difference == 1).all()
    assert apart[["ci_low", "ci_high"]].isna().all(axis=None)
    assert set(apart.no_interval) == {"fewer than 20 subjects", "one subject"}
    np.testing.assert_allclose(apart.p_mcnemar, 0.5 ** (apart.n - 1))
    np.testing.assert_allclose(apart.p_value, 0.5 ** (apart.n_subjects - 1), atol=2e-3)
    same = compared.query("comparison == 'methods' and model_a == 'wrong'")
    assert (same.difference == 0).all()
    assert same[["ci_low", "ci_high"]].isna().all(axis=None)
    assert (same.p_value == 1).all()
    assert (same.p_holm == 1).all()


def test_popularity_missing_everywhere_leaves_pairs_with_nulls_that_say_so(edges: Study) -> None:
    found = rows_of(edges, "fct_adaptive_accuracy", "dataset == 'unknown'")
    assert (found.n_questions == 0).all()
    assert (found.n_missing_popularity > 0).all()
    assert (found.n_splits == 0).all()
    assert found[["accuracy_adaptive", "share_retrieved", "gain", "gain_ci_low"]].isna().all(axis=None)
    assert "unknown" not in set(mart(edges, "fct_adaptive_thresholds").dataset)
    assert "unknown" not in set(mart(edges, "fct_adaptive_usage").dataset)
    assert rows_of(edges, "fct_accuracy", "dataset == 'unknown'").accuracy.notna().all()


def test_popularity_that_does_not_vary_leaves_nulls_with_a_reason(edges: Study) -> None:
    key = "dataset == 'flat' and model == 'partial' and method == 'closed_book'"
    relative = rows_of(edges, "fct_accuracy_by_relative_popularity", key).set_index("relation")
    assert set(relative.undefined) == {"no variance of popularity"}
    assert relative.bin.isna().all()
    assert relative.loc["all"].n_without_variance == len(rows_of(edges, "fct_answers", key))
    correlations = rows_of(edges, "fct_popularity_correlation", key)
    assert set(correlations.pearson_binned_undefined) == {"too few bins"}
    assert correlations.unbinned_undefined.value_counts().to_dict() == {
        "no variance of popularity": 3,
        "too few answers": 1,  # the relation of one question
    }


def test_levels_hold_every_answer_once(edges: Study) -> None:
    key = "dataset == 'flat' and model == 'partial' and method == 'closed_book'"
    levels = rows_of(edges, "fct_accuracy_by_popularity_level", key)
    assert len(levels) == 6
    assert levels.n.sum() == len(rows_of(edges, "fct_answers", key))
    empty = levels[levels.n == 0]
    assert len(empty) == 5
    assert empty[["accuracy", "ci_low", "ci_high"]].isna().all(axis=None)
    least = rows_of(edges, "fct_accuracy_least_popular", key)
    assert least.n_least.tolist() == [5]  # of 17, as 4,000 of 14,267


def test_equal_popularity_gives_one_bin_and_thresholds_of_always_or_never(edges: Study) -> None:
    assert set(rows_of(edges, "fct_accuracy_by_popularity", "dataset == 'flat' and n > 0").bin) == {0}
    thresholds = rows_of(edges, "fct_adaptive_thresholds", "dataset == 'flat'")
    assert set(thresholds.threshold_popularity) <= {500.0, float("inf")}
    assert (
        thresholds.decision == thresholds.threshold_popularity.map({500.0: "never"}).fillna("always")
    ).all()


def test_a_relation_of_one_question_that_is_never_tested_says_so(edges: Study) -> None:
    usage = mart(edges, "fct_adaptive_usage")
    assert ((usage.n_splits == 0) == usage.share_retrieved.isna()).all()
    assert ((usage.n_splits == 0) == usage.undefined.notna()).all()
    single = usage[(usage.relation != "all") & (usage.n == 1)]
    assert len(single)
    assert (single.n_splits < 100).all()


def test_usage_of_all_relations_is_the_share_retrieved_of_the_pair(edges: Study) -> None:
    key = ["dataset", "prompt", "model", "parametric_method", "retrieval_method", "search", "threshold_scope"]
    overall = rows_of(edges, "fct_adaptive_usage", "relation == 'all'")
    both = overall.merge(mart(edges, "fct_adaptive_accuracy"), on=key, suffixes=("", "_pair"), validate="1:1")
    assert len(both) == len(overall)
    assert (both.n == both.n_questions).all()
    for name in ("share_retrieved", "accuracy_adaptive"):
        np.testing.assert_allclose(both[name], both[f"{name}_pair"], atol=1e-12)


def test_what_the_study_asks_for_and_lacks_is_counted(edges: Study) -> None:
    coverage = mart(edges, "fct_answer_coverage").query("table_name == 'answers'")
    lacking = coverage.set_index(["model", "method", "dataset"]).sort_index()
    passages = (
        lake_of(edges)
        .read("retrieved_passages", "bm25")
        .to_pandas()
        .query("paraphrase_id == 0")
        .drop_duplicates(["dataset", "question_id"])
    )
    for dataset, expected in passages.groupby("dataset").size().items():
        row = lacking.loc["partial", "bm25", dataset]
        assert (row.n_expected, row.n_missing, row.state) == (expected, expected, "no rows")
    closed_book = lacking.loc["partial", "closed_book"]
    assert closed_book.n_missing.sum() == 1
    assert sorted(closed_book.state) == ["complete", "complete", "rows missing"]
    assert (lacking.loc["right"].state == "complete").all()
    total = mart(edges, "fct_lake_reconciliation").set_index("table_name").loc["answers"]
    assert total.n_missing == coverage.n_missing.sum()
    assert total.n_expected == coverage.n_expected.sum()


def test_rows_held_twice_are_counted_once_or_left_out_and_the_sums_hold(edges: Study) -> None:
    total = mart(edges, "fct_lake_reconciliation").set_index("table_name").loc["answers"]
    assert total.n_copies == lake_of(edges).read("answers", "right|oracle").num_rows
    assert total.n_contradictory == 6
    assert total.n_lake == total.n_outside_study + total.n_copies + total.n_contradictory + total.n_mart
    answers = mart(edges, "fct_answers")
    assert not answers.duplicated(["dataset", "question_id", "model", "method", "prompt"]).any()
    assert total.n_mart == len(answers)
    assert "Tin" not in set(answers.prediction)
    missing = mart(edges, "fct_answer_coverage").query("model == 'wrong' and method == 'bm25'")
    assert missing.n_missing.sum() <= 3
