"""The marts equal an independent recomputation from fct_answers, to 1e-9."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm

from longtail.study.study import Study
from tests.dbt.recomputation import (
    GROUP,
    PAIR,
    accuracy_by_popularity,
    adaptive,
    assert_equal,
    certainty,
    clusters_of,
    correlations,
    thresholds,
)
from tests.dbt.recomputation_costs import as_told_by_the_lake, with_backgrounds
from tests.warehouses import lake_of, mart

CASES: list[tuple[str, Callable[[pd.DataFrame], pd.DataFrame], list[str]]] = [
    ("fct_accuracy_by_popularity", accuracy_by_popularity, [*GROUP, "relation", "bin"]),
    ("fct_popularity_correlation", correlations, [*GROUP, "relation"]),
    ("fct_adaptive_thresholds", thresholds, [*PAIR, "relation", "search"]),
]


@pytest.mark.parametrize(("name", "recompute", "key"), CASES, ids=[case[0] for case in CASES])
def test_mart_equals_its_recomputation(
    awkward: Study, name: str, recompute: Callable[[pd.DataFrame], pd.DataFrame], key: list[str]
) -> None:
    assert_equal(mart(awkward, name), recompute(mart(awkward, "fct_answers")), key)


@pytest.mark.parametrize("name", ["fct_answers", "fct_paraphrase_answers", "fct_sampled_answers"])
def test_confidence_is_the_geometric_mean_of_the_probabilities(awkward: Study, name: str) -> None:
    answers = mart(awkward, name)
    known = answers[answers.confidence_tokens.notna()]
    assert 0 < len(known) < len(answers)
    assert answers.confidence.notna().equals(answers.confidence_tokens.notna())
    roots = np.exp(known.sum_log_probability) ** (1 / known.confidence_tokens.astype(float))
    np.testing.assert_allclose(known.confidence.astype(float), roots, rtol=1e-12)
    np.testing.assert_allclose(np.exp(known.mean_log_probability.astype(float)), roots, rtol=1e-12)


def test_a_decision_says_what_the_threshold_comes_to(awkward: Study) -> None:
    """Never is the least popularity, whatever it is, not 0."""
    actual = mart(awkward, "fct_adaptive_thresholds")
    expected = thresholds(mart(awkward, "fct_answers"))
    both = expected.merge(actual, on=[*PAIR, "relation", "search"], suffixes=("_expected", ""))
    words = both.share_retrieved_expected.map({0.0: "never", 1.0: "always"}).fillna("below")
    assert both.decision.tolist() == words.tolist()
    assert set(words) == {"always", "never", "below"}
    assert (both.threshold_popularity[words == "never"] > 0).any()


def test_the_gain_in_sample_is_that_of_the_thresholds(awkward: Study) -> None:
    fitted = mart(awkward, "fct_adaptive_thresholds")
    fitted["right"] = fitted.accuracy * fitted.n
    fitted["threshold_scope"] = fitted.relation.map({"all": "all"}).fillna("per_relation")
    overall = fitted[fitted.relation == "all"].set_index([*PAIR, "search"])
    better = overall[["accuracy_always", "accuracy_never"]].max(axis=1)
    key = [*PAIR, "search", "threshold_scope"]
    sums = fitted.groupby(key)[["right", "n"]].sum().reset_index(level="threshold_scope")
    expected = (sums.right / sums.n - better.reindex(sums.index)).to_frame("expected")
    expected = expected.set_index(sums.threshold_scope, append=True).reset_index()
    both = expected.merge(mart(awkward, "fct_adaptive_accuracy"), on=key)
    assert len(both) == len(expected) > 0
    assert both.gain_in_sample.to_numpy() == pytest.approx(both.expected.to_numpy(), abs=1e-9)
    assert (both.gain_in_sample >= 0).all()


def test_adaptive_accuracy_and_costs_over_100_splits_equal_their_recomputation(awkward: Study) -> None:
    def chosen(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame.prompt == "zero_shot") & (frame.model == "large") & (frame.dataset == "popqa")]

    answers = as_told_by_the_lake(chosen(mart(awkward, "fct_answers")), lake_of(awkward))
    answers = with_backgrounds(answers, mart(awkward, "fct_generated_passages"))
    expected = adaptive(answers)
    assert set(expected.parametric_method) == {"closed_book", "genread"}
    key = [*PAIR, "search", "threshold_scope"]
    for name in ("fct_adaptive_accuracy", "fct_adaptive_costs"):
        actual = chosen(mart(awkward, name))
        assert_equal(actual, expected[[*key, *(c for c in expected if c in actual and c not in key)]], key)
    assert expected.filter(like="_per_1000_").notna().all(axis=None)


MEASURES = ["cert", "identical_samples", "n_clusters", "semantic_entropy"]


def test_measures_of_samples_equal_scikit_learn_and_scipy(awkward: Study) -> None:
    embeddings = lake_of(awkward).read_all("answer_embeddings").to_pylist()
    vectors = {(row["model"], row["text"]): np.array(row["embedding"], dtype=float) for row in embeddings}
    expected = certainty(mart(awkward, "fct_sampled_answers"), vectors, n_samples=3, threshold=0.8)
    actual = mart(awkward, "fct_question_consistency")
    assert expected.cert.isna().sum() == 4  # a sample is missing of one question of every model
    assert (actual.n_samples == 0).sum() == 4  # all samples of another
    assert set(expected.n_clusters.dropna()) == {1, 2, 3}  # of up to three texts, two of which mean the same
    assert (expected.identical_samples.dropna() < 1).any()
    key = ["dataset", "prompt", "question_id", "model"]
    both = expected.merge(actual, on=key, suffixes=("_expected", ""))
    assert len(both) == len(expected)
    assert both.n_samples.tolist() == both.n_samples_expected.tolist()
    assert both.n_empty_samples.tolist() == both.n_empty_samples_expected.tolist()
    for name in MEASURES:  # cosines of single-precision vectors
        np.testing.assert_allclose(
            both[name], both[f"{name}_expected"].astype(float), atol=1e-6, err_msg=name
        )


def test_means_of_consistency_have_student_intervals(awkward: Study) -> None:
    questions = mart(awkward, "fct_question_consistency")
    asked = mart(awkward, "dim_questions")[["dataset", "question_id", "subject_id"]]
    questions = questions.merge(asked, on=["dataset", "question_id"], how="left", suffixes=("", "_of"))
    clusters = clusters_of(questions)
    semantic = mart(awkward, "fct_semantic_consistency")
    assert semantic.n_cert.min() < 5  # the relation with one question
    for row in semantic.itertuples():
        same = (questions.dataset == row.dataset) & (questions.model == row.model)
        own = questions[same & ((row.relation == "all") | (questions.relation == row.relation))]
        for name, low, high in (("scons", -1, 1), ("cert", -1, 1), ("semantic_entropy", 0, np.inf)):
            values = own[name].dropna()
            assert getattr(row, name) == pytest.approx(values.mean(), abs=1e-12, nan_ok=True)
            ends = (getattr(row, f"{name}_ci_low"), getattr(row, f"{name}_ci_high"))
            subjects = clusters.loc[values.index]
            k = subjects.nunique()
            if k < 5:
                assert np.isnan(ends).all()
                continue
            fit = sm.OLS(values.to_numpy(), np.ones(len(values))).fit(
                cov_type="cluster", cov_kwds={"groups": subjects.astype("category").cat.codes.to_numpy()}
            )
            half = scipy.stats.t.ppf(0.975, k - 1) * fit.bse[0]
            if half < 1e-9:  # all values are equal
                assert np.isnan(ends).all()
                continue
            assert ends == pytest.approx(
                np.clip([values.mean() - half, values.mean() + half], low, high), abs=1e-6
            )
        assert row.n_scons == own.scons.count() == own.identical_answers.count()
        assert row.n_cert == own.cert.count() == own.semantic_entropy.count()
        assert row.identical_answers == pytest.approx(own.identical_answers.mean(), nan_ok=True)
        assert row.identical_samples == pytest.approx(own.identical_samples.mean(), nan_ok=True)


def test_the_lake_holds_what_makes_it_awkward(awkward: Study) -> None:
    answers = mart(awkward, "fct_answers")
    questions = answers.drop_duplicates(["dataset", "question_id"])
    assert questions.subject_popularity.isna().any()
    assert (questions.subject_popularity == 0).any()
    assert questions.subject_popularity.duplicated().sum() > 20
    assert questions.groupby(["dataset", "relation"]).size().min() == 1
    assert answers[answers.model == "perfect"].is_correct.all()
    assert mart(awkward, "fct_adaptive_thresholds").threshold_popularity.isin([np.inf]).any()
    assert "memory_only" not in set(mart(awkward, "fct_retrieval_quadrants").model)
