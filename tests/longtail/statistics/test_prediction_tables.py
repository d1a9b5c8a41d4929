"""The regression's tables agree with statsmodels' formula interface, and find coefficients that were planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from longtail.statistics.prediction_fit import ABLATIONS, PredictorSet, Questions, fit_all, score
from longtail.statistics.prediction_tables import (
    by_subject,
    code,
    coefficients,
    likelihood,
    terms,
)
from tests.longtail.statistics.predicted_questions import frame, random_questions, single

FORMULAS = {
    "all": "QCat*popularity + QCat*scons + QCat*cert",
    "without_popularity": "QCat*scons + QCat*cert",
    "without_relation": "popularity + scons + cert",
    "scons_cert": "scons + cert",
    "cert": "cert",
    "scons": "scons",
}
NAME_OF = {"log(SPop)": "popularity", "SCons": "scons", "Cert": "cert"}
each_ablation = pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda one: one.name)


def reference(data: pd.DataFrame, ablation: PredictorSet, subject: Any = None) -> Any:
    formula = f"correct ~ {FORMULAS[ablation.name]}"
    errors = {} if subject is None else {"cov_type": "cluster", "cov_kwds": {"groups": subject}}
    return smf.logit(formula, data).fit(method="newton", maxiter=100, tol=1e-12, disp=False, **errors)


def written(term: str) -> str:
    """A term as the formula of the reference has it."""
    for ours, theirs in NAME_OF.items():
        term = term.replace(ours, theirs)
    return term


def parameter(row: dict[str, Any]) -> str:
    return written(row["term"]).replace("QCat", f"QCat[T.{row['relation']}]")


@each_ablation
@pytest.mark.parametrize("seed", range(3))
def test_tables_equal_statsmodels(ablation: PredictorSet, seed: int) -> None:
    questions = random_questions(seed)
    subject = np.random.default_rng(seed).integers(
        0, 110, len(questions.correct)
    )  # also of several relations
    expected, clustered = (reference(frame(questions), ablation, groups) for groups in (None, subject))
    fits = fit_all(questions, ablation)
    clusters = by_subject(questions, subject, fits, ablation)
    found = likelihood(fits, ablation)
    assert found["aic"] == pytest.approx(expected.aic, rel=1e-8)
    assert found["mcfadden_r2"] == pytest.approx(expected.prsquared, abs=1e-9)
    assert found["log_likelihood_null"] == pytest.approx(expected.llnull, rel=1e-8)
    rows = [row for row in coefficients(fits, ablation, clusters) if row["coding"] == "treatment"]
    assert sorted(map(parameter, rows)) == sorted(expected.params.index)
    for row in rows:
        name = parameter(row)
        ours = [row[one] for one in ("beta", "standard_error", "p_value", "ci_low", "ci_high")]
        theirs = [
            expected.params[name],
            expected.bse[name],
            expected.pvalues[name],
            *expected.conf_int().loc[name],
        ]
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8, err_msg=name)
        assert row["exp_ci_low"] == pytest.approx(np.exp(row["ci_low"]))
        ours, theirs = [row["clustered_standard_error"], row["clustered_p_value"]], [
            clustered.bse[name], clustered.pvalues[name]
        ]  # fmt: skip
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, err_msg=name)
    tested, tested_clustered = (one.wald_test_terms(scalar=True).table for one in (expected, clustered))
    for term in (found_terms := list(terms(fits, ablation, clusters))):
        theirs = tested.loc[written(term["term"])]
        assert term["df"] == theirs.df_constraint
        np.testing.assert_allclose(
            [term["wald_chi2"], term["p_value"]], [theirs.statistic, theirs.pvalue], rtol=1e-7, atol=1e-12
        )
        theirs = tested_clustered.loc[written(term["term"])]
        np.testing.assert_allclose(
            [term["clustered_wald_chi2"], term["clustered_p_value"]],
            [theirs.statistic, theirs.pvalue],
            rtol=1e-6,
        )
    assert len(found_terms) == len(tested)


def test_coefficients_within_a_relation_are_those_of_its_own_regression() -> None:
    questions, ablation = random_questions(seed=4), ABLATIONS[0]
    data = frame(questions)
    fits = fit_all(questions, ablation)
    every = coefficients(fits, ablation, single(questions, fits, ablation))
    rows = [row for row in every if row["coding"] != "treatment"]
    for relation, own in data.groupby("QCat"):
        expected = smf.logit("correct ~ popularity + scons + cert", own).fit(disp=False, tol=1e-12)
        mine = {written(row["term"]): row for row in rows if row["relation"] == relation}
        assert set(mine) == set(expected.params.index)
        for name, row in mine.items():
            assert row["beta"] == pytest.approx(expected.params[name], rel=1e-8)
            assert row["p_value"] == pytest.approx(expected.pvalues[name], rel=1e-7)


def test_a_relation_of_few_subjects_has_no_test_by_subjects() -> None:
    """19 subjects of one relation, 80 of the others: nothing that needs the first is tested. Separated relations have
    no part in the others' errors."""
    questions, ablation = random_questions(seed=4), ABLATIONS[0]
    is_first = questions.relation == "relation 1"
    is_last = questions.relation == "relation 3"
    questions = replace(questions, correct=questions.correct | is_last)
    subject = np.where(is_first, np.arange(320) % 19, np.arange(320))
    fits = fit_all(questions, ablation)
    clusters = by_subject(questions, subject, fits, ablation)
    rows = [row for row in coefficients(fits, ablation, clusters) if row["term"].endswith("Cert")]
    tested = {row["relation"] for row in rows if row["clustered_p_value"] is not None}
    assert tested == {"relation 0", "relation 2"}
    assert {row["relation"]: row["n_subjects"] for row in rows} == {
        "relation 0": 80, "relation 1": 19, "relation 2": 80, "relation 3": 80
    }  # fmt: skip
    by_term = {row["term"]: row for row in terms(fits, ablation, clusters)}
    assert by_term["Cert"]["clustered_p_value"] is not None, "the base has enough"
    assert by_term["QCat:Cert"]["clustered_wald_chi2"] is None
    assert by_term["QCat:Cert"]["wald_chi2"] is not None
    known = ~is_first & ~is_last
    alone = by_subject(
        questions.where(known), subject[known], fit_all(questions.where(known), ablation), ablation
    )
    assert alone.n_subjects.tolist() == [80, 80]


@each_ablation
def test_the_held_out_score_is_that_of_statsmodels(ablation: PredictorSet) -> None:
    questions = random_questions(seed=5)
    is_training = np.random.default_rng(0).uniform(size=len(questions.correct)) < 0.8
    training, test = questions.where(is_training), questions.where(~is_training)
    expected = reference(frame(training), ablation).predict(frame(test, scaled_by=training))
    subject = np.arange(len(test.correct)) // 3
    found = score(training, fit_all(training, ablation), test, ablation, subject)
    assert found["n_scored_subjects"] == subject[-1] + 1
    assert found["n_scored"] == len(test.correct)
    assert found["n_hits"] == ((expected > 0.5) == test.correct).sum()
    most = training.correct.mean() > 0.5
    assert found["n_hits_baseline"] == (test.correct == most).sum()
    assert found["n_scored_unseen"] == 0


def test_relations_that_are_separated_or_new_are_scored_all_the_same() -> None:
    questions = random_questions(seed=6)
    is_never = questions.relation == "relation 2"
    questions = Questions(questions.relation, questions.correct & ~is_never, questions.predictors)
    is_new = questions.relation == "relation 3"
    is_test = is_new | (np.arange(len(is_new)) % 5 == 0)
    training, test = questions.where(~is_test), questions.where(is_test)
    fits = fit_all(training, ABLATIONS[0])
    found = score(training, fits, test, ABLATIONS[0], test.relation)
    assert [fit.is_separated for fit in fits] == [False, False, True]
    assert found["n_scored_unseen"] == is_new.sum()
    assert found["score_undefined"] is None
    only_never = test.where(test.relation == "relation 2")
    assert score(training, fits, only_never, ABLATIONS[0], only_never.relation)["n_hits"] == len(
        only_never.correct
    )


def test_without_questions_nothing_is_scored_and_the_reason_is_told() -> None:
    questions, nothing = random_questions(seed=7), np.zeros(320, dtype=bool)
    for training, test, reason in (
        (questions, questions.where(nothing), "no questions to score"),
        (questions.where(nothing), questions, "no questions to fit"),
    ):
        found = score(training, fit_all(training, ABLATIONS[0]), test, ABLATIONS[0], test.relation)
        assert found["n_hits"] is found["n_hits_baseline"] is None
        assert found["score_undefined"] == reason
    assert likelihood([], ABLATIONS[0])["undefined"] == "no questions"


def test_codes_of_significance_begin_below_their_limit() -> None:
    limits = {0.001: "***", 0.01: "**", 0.05: "*", 0.1: "."}
    assert {limit: code(limit - 1e-12) for limit in limits} == limits
    assert [code(limit) for limit in limits] == ["**", "*", ".", ""]
