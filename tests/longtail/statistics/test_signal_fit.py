"""Many logistic regressions at once: equal to scikit-learn's, one by one, and blind to what they are not fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression

from longtail.statistics.signal_fit import DECIMALS, Features, fit_model, probabilities

Values = npt.NDArray[Any]
N, N_RELATIONS, N_FITS = 240, 6, 5
NEVER_RIGHT, UNSEEN = 2, 4
"""A relation whose answers are all wrong, and one that only the last fit has."""


@pytest.fixture
def drawn() -> tuple[Values, Values, Values, Values]:
    """Predictors of different scales (N × 3), relations, correctness, weights."""
    rng = np.random.default_rng(5)
    relation = np.sort(rng.integers(0, N_RELATIONS, N))
    predictors = rng.normal(size=(N, 3)) * [1, 5, 0.1] + [3, 0, 1]
    correct = (rng.random(N) < 1 / (1 + np.exp(3 - predictors[:, 0]))).astype(float)
    correct[relation == NEVER_RIGHT] = 0
    weights = rng.integers(0, 3, (N_FITS, N)).astype(float)
    weights[:-1, relation == UNSEEN] = 0
    return predictors, relation, correct, weights


def design(predictors: Values, relation: Values | None, weights: Values) -> Values:
    """Standardised by the weighted rows; then every relation's own intercept and slopes."""
    mean = np.average(predictors, axis=0, weights=weights)
    deviation = np.sqrt(np.average((predictors - mean) ** 2, axis=0, weights=weights))
    common = (predictors - mean) / deviation
    if relation is None:
        return np.asarray(common)
    is_of = (relation[:, None] == np.arange(N_RELATIONS)).astype(float)
    return np.column_stack([common, is_of, *(is_of * common[:, [at]] for at in range(common.shape[1]))])


@pytest.mark.parametrize("by_relation", [False, True])
def test_each_fit_is_that_of_scikit_learn_on_its_rows_alone(
    drawn: tuple[Values, ...], by_relation: bool
) -> None:
    predictors, relation, correct, weights = drawn
    features = Features(predictors, relation, N_RELATIONS) if by_relation else Features(predictors)
    found = probabilities(features, correct, weights)
    assert found.shape == (N_FITS, N)
    for one, mine in zip(weights, found, strict=True):
        rows = one > 0
        columns = design(predictors, relation if by_relation else None, one)
        theirs = LogisticRegression(C=1, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
        theirs.fit(columns[rows], correct[rows], sample_weight=one[rows])
        assert mine == pytest.approx(theirs.predict_proba(columns)[:, 1], abs=10.0**-DECIMALS)


def test_answers_that_are_not_fitted_on_change_nothing(drawn: tuple[Values, ...]) -> None:
    predictors, relation, correct, weights = drawn
    features = Features(predictors, relation, N_RELATIONS)
    found = probabilities(features, correct, weights)
    for at, one in enumerate(weights):
        others = np.flatnonzero(one == 0)
        turned = correct.copy()
        turned[others] = 1 - turned[others]
        assert (probabilities(features, turned, weights[[at]])[0] == found[at]).all()


def test_the_model_of_all_rows_gives_the_same_probabilities(drawn: tuple[Values, ...]) -> None:
    predictors, relation, correct, _ = drawn
    model = fit_model(Features(predictors, relation, N_RELATIONS), correct)
    scaled = np.column_stack([np.ones(N), (predictors - model.mean) / model.deviation])
    logits = (scaled * (model.common + model.by_group[relation])).sum(axis=1)
    found = probabilities(Features(predictors, relation, N_RELATIONS), correct, np.ones((1, N)))[0]
    assert 1 / (1 + np.exp(-logits)) == pytest.approx(found, abs=1e-8)
    assert fit_model(Features(predictors), correct).by_group.shape == (0, 4)


def test_one_outcome_tells_nothing_and_leaves_the_other_fits_alone(drawn: tuple[Values, ...]) -> None:
    predictors, relation, correct, weights = drawn
    features = Features(predictors, relation, N_RELATIONS)
    rights, wrongs = (correct == 1).astype(float), (correct == 0).astype(float)
    found = probabilities(features, correct, np.stack([rights, weights[0], wrongs]))
    assert (found[0] == 1).all()
    assert (found[2] == 0).all()
    assert found[1] == pytest.approx(probabilities(features, correct, weights[:1])[0], abs=1e-8)


def test_separable_rows_and_a_constant_predictor_have_finite_probabilities() -> None:
    predictors = np.column_stack([np.arange(20.0), np.full(20, 0.1)])
    correct = (predictors[:, 0] >= 10).astype(float)
    (found,) = probabilities(Features(predictors), correct, np.ones((1, 20)))
    assert (np.diff(found) > 0).all()
    assert 0 < found[0] < 0.1
    assert 0.9 < found[-1] < 1


def test_equal_questions_have_equal_probabilities(drawn: tuple[Values, ...]) -> None:
    predictors, relation, correct, weights = drawn
    predictors[relation == 1] = predictors[relation == 1][0]
    found = probabilities(Features(predictors, relation, N_RELATIONS), correct, weights)[:, relation == 1]
    assert (found == found[:, :1]).all()
