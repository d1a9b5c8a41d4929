"""Separated, collinear and tiny blocks have no coefficients, a reason, and the likelihood that they tend to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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
    Questions,
    blocks,
    fit,
    fit_all,
    ridge,
    separated_rows,
    standardise,
)
from longtail.statistics.prediction_tables import base_of, coefficients, likelihood, terms
from tests.longtail.statistics.predicted_questions import random_questions, single

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


def test_overlap_is_no_separation() -> None:
    rows = block([(-1,), (0,), (1,), (2,)], [0, 1, 0, 1])
    assert not separated_rows(rows.design, rows.correct).any()
    assert not fit(rows).is_separated


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


FORMULAS = {
    "all": "QCat*p0 + QCat*p1 + QCat*p2",
    "without_popularity": "QCat*p1 + QCat*p2",
    "without_relation": "p0 + p1 + p2",
    "scons_cert": "p1 + p2",
    "cert": "p2",
    "scons": "p1",
}


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
        **dict(zip(("p0", "p1", "p2"), standardised(questions).T, strict=True)),
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
