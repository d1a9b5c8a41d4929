"""Decisions below a threshold that each fit finds on its own signal: by hand, and as the published thresholds do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from longtail.statistics.adaptive_gains import dealt_twice, is_settled
from longtail.statistics.adaptive_thresholds import fit_pair
from longtail.statistics.signal_policies import (
    ALL,
    ALWAYS,
    FIXED,
    NEVER,
    PER_RELATION,
    POPULARITY,
    Asked,
    choose_signals,
    decisions,
    gain_over,
    resample_accuracies,
)

Values = npt.NDArray[Any]


def asked(relation: list[str], popularity: list[float], *differences: list[int]) -> Asked:
    return Asked(
        np.array(relation), {POPULARITY: np.array(popularity, dtype=float)}, np.zeros(len(relation)),
        tuple(np.array(difference, dtype=float) for difference in differences), {},
        np.arange(len(relation)),
    )  # fmt: skip


def test_a_relation_without_fitted_questions_has_the_threshold_for_all() -> None:
    questions = asked(["", "a", "a", "b"], [1, 2, 9, 3], [1, 1, -1, 1])
    found = decisions(questions, np.array([[1.0, 1, 1, 0]]))
    assert found[POPULARITY, ALL][0].tolist() == [[True, True, False, True]]  # 9 is the threshold
    assert found[POPULARITY, PER_RELATION][0].tolist() == [[True, True, False, True]]
    assert found[ALWAYS, ALL][0].tolist() == [[True]]
    assert found[NEVER, ALL][0].tolist() == [[False]]
    assert found[FIXED, ALL][0].tolist() == [[True]]
    tie = decisions(asked(["", "a", "a", ""], [1, 2, 9, 9], [1, 1, -1, -1]), np.ones((1, 4)))
    assert tie[FIXED, ALL][0].tolist() == [[False]], "always is no better than never"
    assert tie[POPULARITY, PER_RELATION][0].tolist() == [[True, True, False, False]]


def test_thresholds_on_popularity_are_the_published_ones() -> None:
    rng = np.random.default_rng(1)
    n, names = 90, np.sort(rng.choice(["", "a", "b", "c"], 90))
    popularity = rng.integers(0, 30, n).astype(float)
    parametric = (rng.random(n) < popularity / 30).astype(int)
    retrievals = [(rng.random(n) < share).astype(int) for share in (0.3, 0.6)]
    training = rng.random((40, n)) < 0.7
    training[:, names == "c"] = False
    training[0] = False
    questions = Asked(
        names,
        {POPULARITY: popularity},
        parametric,
        tuple(r - parametric for r in retrievals),
        {},
        np.arange(n),
    )
    found = decisions(questions, training.astype(float))
    edges = {name: np.array([popularity.min(), np.inf]) for name in ("a", "b", "c", "all")}
    for at, retrieval in enumerate(retrievals):
        limits = {
            relation: np.where(fit["n"] > 0, fit["threshold_popularity"], -np.inf)
            for (relation, search), fit in fit_pair(
                names, popularity, parametric, retrieval, training, edges
            ).items()
            if search == "exact"
        }
        overall = popularity < limits["all"][:, None]
        assert (found[POPULARITY, ALL][at] == overall).all()
        for name in ("", "a", "b", "c"):
            mine = found[POPULARITY, PER_RELATION][at][:, names == name]
            limit = (
                limits["all"]
                if name in ("", "c")
                else np.where(training[:, names == name].any(axis=1), limits.get(name, 0), limits["all"])
            )
            assert (mine == (popularity[names == name] < limit[:, None])).all()


def test_a_fit_chooses_the_signal_that_ranks_its_own_right_answers_best() -> None:
    right = np.array([0.0, 0, 1, 1, 1])
    signals = {"popularity": np.array([1.0, 2, 3, 4, 0]), "confidence": np.array([1.0, 4, 3, 2, 5])}
    questions = Asked(np.full(5, ""), {}, right, (1 - 2 * right,), {}, np.arange(5), signals)
    weights = np.array([
        [1.0, 1, 1, 1, 0],  # 4 of 4 pairs, and 2
        [1, 1, 0, 0, 1],  # none, and both
        [1, 1, 1, 0, 2],  # 2 of 6, and 5
        [0, 0, 1, 1, 1],  # one outcome: the first
        [1, 0, 1, 1, 0],  # 2 of 2 each: the first
    ])  # fmt: skip
    assert choose_signals(questions, weights).tolist() == [0, 1, 1, 0, 0]
    found = decisions(questions, weights)["best_signal", ALL][0]
    assert found[0].tolist() == [True, True, False, False, True]
    assert found[1].tolist() == [True, True, True, True, False]


SPREAD = np.random.default_rng(0).normal(0, 0.1, (50, 1)) + np.zeros(2)
"""Both deals of a resample agree, so their covariance is the variance."""


def test_the_gain_is_the_mean_over_splits_and_the_errors_come_from_questions() -> None:
    # Forty questions: retrieval alone is right on twenty, memory alone on ten, both on ten.
    difference = np.repeat([1.0, -1.0, 0.0], [20, 10, 10])
    decided = np.tile(difference > 0, (2, 1))
    decided[1, 20:25] = True
    test = np.ones((2, 40), dtype=bool)
    found = gain_over(decided, np.array([[True], [True]]), difference, test, np.arange(40), SPREAD, True)
    # Split 0 does not retrieve for the ten: +10/40. Split 1 retrieves for five of them: +5/40.
    assert found.gain == pytest.approx(7.5 / 40)
    assert found.variance_of_splits == pytest.approx(np.var([10 / 40, 5 / 40], ddof=1) / 2)
    # By question: five gain a half, five gain 1.
    assert found.n_deciding == pytest.approx(6.25**2 / (5 + 5 / 16))
    assert found.share_departing == pytest.approx((10 + 5) / 60)
    assert found.undefined == "fewer than 20 subjects decide it"
    scoring = (6.25 - 7.5**2 / 40) / 40**2
    tiled = (np.tile(decided, 4), np.array([[True], [True]]), np.tile(difference, 4), np.tile(test, 4))
    many = gain_over(*tiled, np.arange(160), SPREAD, True)
    assert many.undefined is None
    assert many.gain_standard_error == pytest.approx(
        np.sqrt((scoring / 4 * 160 / 159 + np.var(SPREAD[:, 0], ddof=1)) / 2)
    )
    # The same questions again, each about its subject: they decide no more than once.
    repeated = gain_over(*tiled, np.tile(np.arange(40), 4), SPREAD, True)
    assert repeated.n_deciding == pytest.approx(found.n_deciding)
    assert repeated.undefined == found.undefined


def test_the_whole_covariance_counts_where_splits_disagree_on_the_better_fixed_method() -> None:
    """Of 100 questions, 40 gain where always is to be beaten, and 40 others where never is. The deals vary by .02."""
    difference, spread = np.repeat([1.0, -1.0, 0.0], [40, 40, 20]), np.array([[0.1, 0.1], [-0.1, -0.1]])
    always, never = [True], [False]
    for baseline, variance in (
        (np.array([always, never]), 0.02),  # 80 questions gain a half: scoring varies by (20 - 16) / 100 ** 2
        (np.array([always] * 4 + [never]), (0.00112 * 100 / 99 + 0.02) / 2),  # 40 gain .8, 40 gain .2
        (np.array([always] * 3 + [never]), 0.02),
    ):
        n_splits = len(baseline)
        decided, test = np.tile(difference > 0, (n_splits, 1)), np.ones((n_splits, 100), dtype=bool)
        settled = is_settled(baseline)
        found = gain_over(decided, baseline, difference, test, np.arange(100), spread, settled)
        assert found.gain == pytest.approx(0.4)
        assert found.gain_standard_error == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize(
    ("n_splits", "n_departing", "spread", "reason"),
    [
        (1, 40, SPREAD, "fewer than two splits"),
        (2, 10, SPREAD, "fewer than 20 subjects decide it"),
        (2, 24, SPREAD, "both nearly always decide alike"),
        (2, 0, np.zeros((5, 2)), "fewer than 20 subjects decide it"),
        (2, 40, np.array([[1.0, -1], [-1, 1]]), "resamples do not vary"),
        (2, 40, SPREAD, None),
        (2, 25, SPREAD, None),
    ],
)
def test_a_gain_without_an_interval_has_a_reason(
    n_splits: int, n_departing: int, spread: np.ndarray, reason: str | None
) -> None:
    difference = np.ones(500)
    decided = np.zeros((n_splits, 500), dtype=bool)
    decided[:, :n_departing] = True
    never = np.zeros((n_splits, 1), dtype=bool)
    test, unit = np.ones((n_splits, 500), dtype=bool), np.arange(500)
    found = gain_over(decided, never, difference, test, unit, spread, True)
    assert found.undefined == reason
    assert (found.gain_standard_error is None) == (reason is not None)
    assert (found.variance_of_splits is None) == (n_splits == 1)


def test_each_resample_is_scored_on_what_it_was_not_fitted_on() -> None:
    """Retrieval is always right and memory never, so every policy that has seen one question retrieves always."""
    n = 30
    asked = Asked(
        np.full(n, "a"), {POPULARITY: np.arange(n) + 1.0}, np.zeros(n), (np.ones(n), -np.ones(n)), {},
        np.arange(n) // 2,
    )  # fmt: skip
    found = resample_accuracies(asked, seed=1, n_resamples=7)
    for policy in ((ALWAYS, ALL), (FIXED, ALL), (POPULARITY, ALL)):
        assert (found[policy][0] == 1).all(), policy
    assert found[ALWAYS, ALL][0].shape == (7, 2)
    assert (found[NEVER, ALL][0] == 0).all()
    assert (found[ALWAYS, ALL][1] == -1).all(), "of the other retrieval method"
    assert (found[FIXED, ALL][1] == 0).all()
    again = resample_accuracies(asked, seed=1, n_resamples=7)
    assert all((again[policy][0] == found[policy][0]).all() for policy in found)


def test_a_subject_is_drawn_and_dealt_as_a_whole() -> None:
    unit = np.array([0, 2, 1, 0, 2, 0])
    batches = [*dealt_twice(unit, 50, 60, np.random.default_rng(0))]
    assert [len(weights) for weights, _ in batches] == [10] * 5
    for weights, deals in batches:
        for values in (weights, *deals):
            for subject in range(3):
                same = values[:, unit == subject]
                assert (same == same[:, :1]).all()
        assert (weights[:, [0, 1, 2]].sum(axis=1) == 3).all(), "as many subjects as there are"
    first, second = (np.concatenate([deals[at] for _, deals in batches]) for at in (0, 1))
    assert (first != second).any()
