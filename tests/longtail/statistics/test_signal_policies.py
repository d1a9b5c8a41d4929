"""Decisions below a threshold that each fit finds on its own signal: by hand, and as the published thresholds do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from longtail.statistics.adaptive_thresholds import PairRows, fit_pair
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
    held_out_gains,
    thresholds,
)

Values = npt.NDArray[Any]


def asked(relation: list[str], popularity: list[float], *differences: list[int]) -> Asked:
    return Asked(
        np.array(relation), {POPULARITY: np.array(popularity, dtype=float)}, np.zeros(len(relation)),
        tuple(np.array(difference, dtype=float) for difference in differences), {},
        np.arange(len(relation)),
    )  # fmt: skip


def test_the_threshold_is_the_next_fitted_value_above_what_is_worth_retrieving() -> None:
    values = np.array([[0.1, 0.2, 0.2, 0.3, 0.4, 0.5]] * 4)
    is_fitted = np.array(
        [[1, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]], dtype=bool
    )
    gained = np.array([
        [1, 1, -1, 0, -1, 0],  # below 0.2 one is gained, and below 0.4 no more: the lower one is taken
        [0, 1, 1, 0, -1, 1],  # below 0.3
        [-1, 0, 0, 0, 1, 1],  # nothing below any threshold, but all together: always
        [0, 0, 0, 0, 0, 0],  # nothing to fit on
    ])  # fmt: skip
    (found,) = thresholds(values, is_fitted, [gained.astype(float)])
    assert found.tolist() == [0.2, 0.3, np.inf, -np.inf]
    (never,) = thresholds(values[:1], is_fitted[1:2], [np.array([[-1.0, 0, 0, 0, 0, 0]])])
    assert never.tolist() == [0.1]


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
        fits = fit_pair(PairRows(names, popularity, parametric, retrieval, training, edges))
        limits = {
            fit.relation: np.where(fit.n > 0, fit.threshold_popularity, -np.inf)
            for fit in fits
            if fit.search == "exact"
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


def test_held_out_gains_are_those_of_the_decisions() -> None:
    rng = np.random.default_rng(2)
    n, names = 60, np.sort(rng.choice(["", "a", "b", "c"], 60))
    weights, held = rng.integers(0, 3, (2, 20, n)).astype(float)
    weights[:10, names == "c"] = 0  # those have the threshold for all
    differences = tuple(rng.integers(-1, 2, n).astype(float) for _ in range(2))
    popularity = rng.integers(0, 30, n).astype(float)
    right = rng.integers(0, 2, n).astype(float)
    candidates = {name: rng.integers(0, 9, n).astype(float) for name in ("first_margin", "cert")}
    questions = Asked(names, {POPULARITY: popularity}, right, differences, {}, np.arange(n), candidates)
    decided, found = decisions(questions, weights), held_out_gains(questions, weights, held)
    assert found.keys() == decided.keys()
    assert {*choose_signals(questions, weights)} == {0, 1}
    for policy, by_method in decided.items():
        for one, gained, difference in zip(by_method, found[policy], differences, strict=True):
            assert (gained == (one * held * difference).sum(axis=1)).all()


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
