"""Gains by running sums equal those found by trying every candidate, question by question."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.statistics.held_out_gains import (
    SCOPES,
    SEARCHES,
    Questions,
    fit,
    ladders,
    left_out,
)

QUESTION = st.tuples(
    st.sampled_from(["father", "mother", "color"]),
    st.sampled_from([0.0, 1.0, 2.0, 5.0, 8.0, 20.0]),
    st.integers(-1, 1),
    st.lists(st.integers(0, 2), min_size=3, max_size=3),  # how often it is in each of three resamples
    st.lists(st.integers(0, 3), min_size=3, max_size=3),  # in which fold
)
Row = tuple[str, float, int, list[int], list[int]]


def questions_of(rows: list[Row]) -> Questions:
    own = np.array([2.0, 8.0, np.inf])
    return Questions(
        np.array([row[0] for row in rows], dtype=object), np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
        {"all": np.array([5.0, np.inf]), **dict.fromkeys(("father", "mother", "color"), own)},
        np.arange(len(rows)),
    )  # fmt: skip


def drawn(rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    return (np.array([row[place] for row in rows], dtype=np.uint8).T for place in (3, 4))  # type: ignore[return-value]


@settings(deadline=None)  # the first example compiles
@given(st.lists(QUESTION, min_size=1, max_size=20))
def test_gains_of_what_is_left_out_equal_plain_loops(rows: list[Row]) -> None:
    questions = questions_of(rows)
    weights, folds = drawn(rows)
    fitted = fit(ladders(questions), weights, folds, 4)
    for resample in range(3):
        for fold in range(4):
            expected = plain_gains(questions, weights[resample], folds[resample] == fold)
            assert {name: gain[fold, resample] for name, gain in fitted.gain.items()} == expected


def plain_gains(questions: Questions, weights: np.ndarray, is_held: np.ndarray) -> dict[tuple[str, str], int]:
    trained = np.flatnonzero((weights > 0) & ~is_held)
    takes_always = (weights * questions.difference)[trained].sum() > 0
    found = {}
    for search in SEARCHES:
        for scope in SCOPES:
            gain = 0
            for asked in np.flatnonzero((weights > 0) & is_held):
                near = trained[questions.relation[trained] == questions.relation[asked]]
                if scope == "per_relation" and len(near):
                    limit = plain_threshold(questions, weights, near, search, scope)
                else:
                    limit = plain_threshold(questions, weights, trained, search, "all")
                decides = int(questions.popularity[asked] < limit) - int(takes_always)
                gain += int(weights[asked]) * int(questions.difference[asked]) * decides
            found[search, scope] = gain
    return found


def plain_threshold(
    questions: Questions, weights: np.ndarray, fitted: np.ndarray, search: str, scope: str
) -> float:
    """The lowest of the best; where nothing was fitted, exact retrieves always (nothing is below infinity)."""
    if search == "exact":
        tried = [*sorted(set(questions.popularity[fitted])), np.inf]
    else:
        tried = [-np.inf, *sorted(set(questions.step_of_bins(scope, questions.edges)))]
    below = [fitted[questions.popularity[fitted] < limit] for limit in tried]
    gained = [int((weights[rows].astype(int) * questions.difference[rows]).sum()) for rows in below]
    return float(tried[gained.index(max(gained))])


def test_what_single_questions_gain_when_they_are_left_out() -> None:
    """Two folds: a and b, c and d. Fitted on c and d: always, as a rightly is, and b wrongly.

    Fitted on a and b: never is as good as always, and below 9 is better than both. So c, at 20, is left to memory.
    """
    rows: list[Row] = [
        ("father", 5.0, 1, [1], [0]), ("father", 9.0, -1, [1], [0]),
        ("father", 20.0, 1, [1], [1]), ("father", 1.0, 1, [1], [1]),
    ]  # fmt: skip
    questions = questions_of(rows)
    weights, folds = drawn(rows)
    ladder_of = ladders(questions)
    single = left_out(ladder_of, fit(ladder_of, weights, folds, 2), folds)["exact", "all"]
    assert single.gain.tolist() == [0.0, 0.0, 0.0, 1.0]
    assert single.share_departing == 0.25
