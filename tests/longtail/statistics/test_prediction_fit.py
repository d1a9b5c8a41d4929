"""The regression of correctness and its tables equal those of statsmodels; separated, collinear and scored rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from patsy import dmatrix
from scipy.optimize import minimize

from longtail.statistics.prediction_fit import (
    ABLATIONS,
    COLLINEAR,
    NO_VARIANCE,
    ONE_OUTCOME,
    SEPARABLE,
    Block,
    PredictorSet,
    Questions,
    blocks,
    fit,
    fit_all,
    ridge,
    score,
    standardise,
)
from longtail.statistics.prediction_tables import base_of, by_subject, code, coefficients, likelihood, terms
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


ALL = ABLATIONS[0]


def block(rows: list[tuple[float, ...]], correct: list[int]) -> Block:
    design = np.column_stack([np.ones(len(rows)), np.array(rows, dtype=float)])
    return Block("father", design, np.array(correct, dtype=bool))


@pytest.mark.parametrize(
    ("rows", "correct", "reason", "limit"),
    [
        ([(-2,), (-1,), (1,), (2,)], [0, 0, 1, 1], SEPARABLE, 0.0),
        # The two questions at 0 stay uncertain for ever.
        ([(-1,), (0,), (0,), (1,)], [0, 0, 1, 1], SEPARABLE, 2 * np.log(0.5)),
        ([(-1,), (0,), (0,), (0,), (1,)], [0, 0, 1, 1, 1], SEPARABLE, np.log(1 / 3) + 2 * np.log(2 / 3)),
        # One plane separates by the first predictor; on it, the second one overlaps.
        ([(-1, 5), (0, -1), (0, 1), (0, -1), (0, 1), (1, 5)], [0, 1, 0, 0, 1, 1], SEPARABLE, 4 * np.log(0.5)),
        ([(1,), (2,), (3,)], [1, 1, 1], ONE_OUTCOME, 0.0),
        ([(1,)], [0], ONE_OUTCOME, 0.0),
        # Fewer questions than columns.
        ([(1, 2, 3), (2, 1, 5)], [0, 1], SEPARABLE, 0.0),
    ],
)
def test_a_separated_block_has_a_limit_and_no_coefficients(
    rows: list[tuple[float, ...]], correct: list[int], reason: str, limit: float
) -> None:
    found = fit(block(rows, correct))
    assert found.is_separated
    assert set(found.undefined) == {reason}
    assert np.isnan(found.beta).all()
    assert found.solution is None
    assert found.log_likelihood == pytest.approx(limit, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 12))
def test_the_likelihood_is_the_greatest_one(seed: int, n: int) -> None:
    """On few questions with coarse values, where all kinds of separation occur: a numerical search gets as far."""
    rng = np.random.default_rng(seed)
    rows = block([tuple(row) for row in rng.integers(-1, 2, (n, 2))], rng.integers(0, 2, n).tolist())
    sign = np.where(rows.correct, 1.0, -1.0)

    def loss(beta: np.ndarray[Any, Any]) -> float:
        return float(np.logaddexp(0, -sign * (rows.design @ beta)).sum())

    searched = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9, "maxiter": 2_000}).fun
    assert fit(rows).log_likelihood == pytest.approx(-searched, abs=2e-3)
    assert fit(rows).log_likelihood >= -searched - 1e-9


def test_a_predictor_that_a_relation_does_not_vary_leaves_the_other_slopes() -> None:
    questions = random_questions(seed=1)
    predictors = questions.predictors.copy()
    predictors[questions.relation == "relation 0", 2] = 1.0
    questions = Questions(questions.relation, questions.correct, predictors)
    fits = fit_all(questions, ALL)
    assert fits[0].undefined == (COLLINEAR, None, None, COLLINEAR)
    assert (
        base_of(fits) is fits[1]
    )  # a base without all coefficients would take them from every other relation
    # The slopes that are determined are those of the regression without certainty.
    own = questions.where(questions.relation == "relation 0")
    standardised = standardise(own.predictors, predictors)[:, :2]
    expected = fit(Block("", np.column_stack([np.ones(len(standardised)), standardised]), own.correct))
    np.testing.assert_allclose(fits[0].beta[1:3], expected.beta[1:3], rtol=1e-9)
    assert likelihood(fits, ALL)["n_coefficients"] == 15
    assert likelihood(fits, ALL)["n_undetermined"] == 1
    tested = {row["term"]: row for row in terms(fits, ALL, single(questions, fits, ALL))}
    assert (tested["QCat:Cert"]["df"], tested["QCat:Cert"]["n_undefined"]) == (2, 1)
    assert (tested["QCat:SCons"]["df"], tested["QCat:SCons"]["n_undefined"]) == (3, 0)


def test_a_predictor_that_never_varies_has_no_coefficient_and_spoils_no_other() -> None:
    drawn = random_questions(seed=2)
    predictors = np.column_stack([drawn.predictors[:, :2], np.full(len(drawn.correct), 0.7)])
    questions = Questions(drawn.relation, drawn.correct, predictors)
    fits = fit_all(questions, ALL)
    rows = {
        (row["coding"], row["term"], row["relation"]): row
        for row in coefficients(fits, ALL, single(questions, fits, ALL))
    }
    for one in blocks(questions, ALL):
        expected = fit(Block(one.relation, one.design[:, :3], one.correct))
        assert rows["within_relation", "Intercept", one.relation]["beta"] == pytest.approx(expected.beta[0])
        assert rows["within_relation", "SCons", one.relation]["beta"] == pytest.approx(expected.beta[2])
        assert rows["within_relation", "Cert", one.relation]["undefined"] == NO_VARIANCE
    tested = {row["term"]: row for row in terms(fits, ALL, single(questions, fits, ALL))}
    assert tested["Cert"]["undefined"] == tested["QCat:Cert"]["undefined"] == NO_VARIANCE
    assert tested["QCat:Cert"]["df"] == 0


def test_a_relation_never_right_is_no_base_and_changes_no_other() -> None:
    questions = random_questions(seed=3)
    is_never = questions.relation == "relation 0"
    spoilt = Questions(questions.relation, questions.correct & ~is_never, questions.predictors)
    fits = fit_all(spoilt, ALL)
    rows = {
        (row["coding"], row["term"], row["relation"]): row
        for row in coefficients(fits, ALL, single(spoilt, fits, ALL))
    }
    assert rows["treatment", "QCat", "relation 0"]["undefined"] == ONE_OUTCOME
    assert rows["treatment", "QCat", "relation 0"]["is_separated"]
    assert rows["treatment", "Intercept", "relation 1"]["is_base"]
    assert all(row["n_fitted"] == 80 for row in rows.values())
    found = likelihood(fits, ALL)
    assert (found["base_relation"], found["n_separated"], found["n_separated_questions"]) == (
        "relation 1",
        1,
        80,
    )
    others = fit_all(questions, ALL)[1:]
    assert found["log_likelihood"] == pytest.approx(sum(one.log_likelihood for one in others))
    assert found["n_coefficients"] == 16


def test_relations_that_are_all_separated_have_no_base() -> None:
    questions = random_questions(seed=3)
    always = Questions(questions.relation, np.full(320, True), questions.predictors)
    fits = fit_all(always, ALL)
    assert {row["undefined"] for row in coefficients(fits, ALL, single(always, fits, ALL))} == {ONE_OUTCOME}
    assert all(
        row["undefined"] and row["wald_chi2"] is None for row in terms(fits, ALL, single(always, fits, ALL))
    )
    found = likelihood(fits, ALL)
    assert (found["mcfadden_r2"], found["undefined"], found["base_relation"]) == (None, ONE_OUTCOME, None)


def test_a_slow_fit_is_finished_and_not_called_separated() -> None:
    """Nearly separable: a single question on the wrong side, far from the plane."""
    x = np.concatenate([np.linspace(-1, -0.001, 300), np.linspace(0.001, 1, 300), [-0.5]])
    correct = np.concatenate([np.zeros(300), np.ones(300), [1]]).astype(bool)
    found = fit(Block("", np.column_stack([np.ones(601), x]), correct))
    assert not found.is_separated
    assert np.isfinite(found.beta).all()


def test_the_ridge_fit_is_finite_where_the_likelihood_has_no_maximum() -> None:
    rows = block([(-2,), (-1,), (1,), (2,)], [0, 0, 1, 1])
    beta = ridge(rows.design, rows.correct.astype(float), prior=0.5)
    probability = 1 / (1 + np.exp(-rows.design @ beta))
    gradient = rows.design.T @ (rows.correct - probability) - (beta - [0.5, 0])
    np.testing.assert_allclose(gradient, 0, atol=1e-7)
    assert (np.diff(probability) > 0).all()


@st.composite
def drawn_questions(draw: st.DrawFn) -> Questions:
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 1_000)))
    relation = rng.choice(["author", "capital", "who sang it?"], n)
    predictors = rng.normal(size=(n, 3)).round(draw(st.integers(0, 3)))
    predictors[:, draw(st.integers(0, 2))] *= draw(st.sampled_from([0.0, 1.0, 1e6]))
    return Questions(relation, rng.uniform(size=n) < 0.5, predictors)


@settings(max_examples=40, deadline=None)
@given(drawn_questions(), st.sampled_from(ABLATIONS))
def test_blocks_span_what_the_formula_spans(questions: Questions, ablation: object) -> None:
    parts = blocks(questions, ablation)
    assert sum(len(part.correct) for part in parts) == len(questions.correct)
    assert sum(int(part.correct.sum()) for part in parts) == questions.correct.sum()
    assert [part.relation for part in parts] == (
        sorted(set(questions.relation)) if ablation.by_relation else ["all"]
    )
    assert all((part.design[:, 0] == 1).all() for part in parts)
    whole = np.zeros((len(questions.correct), sum(part.design.shape[1] for part in parts)))
    for number, part in enumerate(parts):
        rows = questions.relation == part.relation if ablation.by_relation else slice(None)
        width = part.design.shape[1]
        whole[rows, number * width : (number + 1) * width] = part.design
    named = {
        "QCat": questions.relation,
        **dict(zip(("popularity", "scons", "cert"), standardised(questions).T, strict=True)),
    }
    formula = np.asarray(dmatrix(FORMULAS[ablation.name], named))
    rank = np.linalg.matrix_rank(whole)
    assert np.linalg.matrix_rank(formula) == rank
    assert np.linalg.matrix_rank(np.column_stack([whole, formula])) == rank


def standardised(questions: Questions) -> np.ndarray:
    return standardise(questions.predictors, questions.predictors)


@settings(max_examples=40, deadline=None)
@given(drawn_questions())
def test_predictors_are_standardised_or_zero(questions: Questions) -> None:
    found = standardised(questions)
    varies = np.ptp(questions.predictors, axis=0) > 0
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(found.std(axis=0)[varies], 1, rtol=1e-9)
    assert (found[:, ~varies] == 0).all()
