"""Risk against coverage: areas by brute force, bounds by scipy, promises in simulated worlds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from scipy.stats import binom

from benchmarks.risk_worlds import Setting, broken
from longtail.statistics.risk_coverage import (
    DELTA,
    LEAST_PROMISED,
    N_STEPS,
    SCHEMA,
    curve,
    risk_coverage,
    upper_bound,
)

Values = npt.NDArray[Any]


def answers_of(signal: Values, wrong: Values, **more: Any) -> pa.Table:
    """One group of answers whose confidence is the signal; nothing else is known."""
    n, unknown = len(signal), [None] * len(signal)
    names = ("popularity", "site_links", "least_probability", "first_probability", "first_margin", "mean_entropy",
             "scons", "cert")  # fmt: skip
    group = {"dataset": "d", "prompt": "p", "model": "m", "method": "closed_book", **dict.fromkeys(names, unknown),
             "subject": [f"s{i}" for i in range(n)], "relation": ["a"] * n, "confidence": signal.tolist(),
             "is_correct": [bool(1 - one) for one in wrong], **more}  # fmt: skip
    return pa.Table.from_pylist([group])


def rows_of(signal: Values, wrong: Values, **more: Any) -> list[dict[str, Any]]:
    return risk_coverage(answers_of(signal, wrong, **more), pa.table({})).to_pylist()


def some(n: int, seed: int, levels: int) -> tuple[Values, Values]:
    """Signals with ties, and answers of which those with a high signal are seldom wrong."""
    rng = np.random.default_rng(seed)
    signal = rng.integers(1, levels + 1, n) / levels
    return signal, (rng.random(n) > signal).astype(float)


def test_the_area_is_the_mean_risk_over_all_orders_of_the_ties() -> None:
    """By brute force: every order of the tied answers, every coverage."""
    rng = np.random.default_rng(4)
    signal = np.concatenate([np.repeat([0.9, 0.5, 0.2], [3, 4, 2]), np.linspace(0.01, 0.1, 45)])
    wrong = np.concatenate([[0, 1, 0, 1, 1, 0, 0, 1, 1], (rng.random(45) < 0.6)]).astype(float)
    orders = [
        [*first, *second, *third, *wrong[9:][::-1]]
        for first in itertools.permutations(wrong[:3])
        for second in itertools.permutations(wrong[3:7])
        for third in itertools.permutations(wrong[7:9])
    ]
    places = np.arange(1, 55)
    areas = [np.mean(np.cumsum(order) / places) for order in orders]
    best = np.mean(np.cumsum(sorted(wrong)) / places)
    (row, *_) = rows_of(signal, wrong)
    assert row["area"] == pytest.approx(np.mean(areas))
    assert row["excess_area"] == pytest.approx(np.mean(areas) - best)


def test_steps_answer_what_is_above_their_threshold_ties_together() -> None:
    signal, wrong = some(137, 2, 12)
    rows = rows_of(signal, wrong)
    assert [row["coverage_step"] for row in rows] == list(range(1, N_STEPS + 1))
    for row in rows:
        threshold = -math.inf if row["threshold"] is None else row["threshold"]
        given = signal > threshold
        assert (row["n_answered"], row["n_wrong"]) == (given.sum(), wrong[given].sum())
        assert row["n_answered"] >= row["coverage_step"] / N_STEPS * 137
        stricter = signal > min(signal[given])
        assert stricter.sum() < row["coverage_step"] / N_STEPS * 137, "no fewer would do"
    assert rows[-1]["threshold"] is None


def test_the_bound_is_the_risk_whose_binomial_tail_is_delta() -> None:
    for n, n_wrong in ((1, 0), (22, 0), (22, 1), (50, 7), (1_000, 83)):
        bound = float(upper_bound(np.array([n_wrong]), np.array([n]))[0])
        assert binom.cdf(n_wrong, n, bound) == pytest.approx(DELTA)
    assert upper_bound(np.array([5]), np.array([5])).tolist() == [1.0]


def test_promises_are_those_of_fixed_sequence_testing() -> None:
    """For each risk: test from strict to lax by exact binomial p-values, and stop at the first that is not rejected."""
    for seed, alpha in itertools.product(range(8), (0.05, 0.1, 0.2, 0.4)):
        signal, wrong = some(400, seed, 1_000)
        rows = list(curve(signal, wrong, signal, wrong, np.arange(400)))
        passed = []
        for row in (row for row in rows if row["n_answered"] >= LEAST_PROMISED):
            if binom.cdf(row["n_wrong"], row["n_answered"], alpha) > DELTA:
                break
            passed.append(row)
        assert [row for row in rows if (row["promised_risk"] or 1) <= alpha] == passed


@pytest.mark.parametrize(
    "setting",
    [
        ("everywhere a little above α", "memory", 0.1),
        ("falls with the signal", "memory", 0.1),
        ("falls with the signal", "else a worse passage", 0.1),
    ],
)
def test_at_most_delta_of_a_thousand_studies_break_a_promise(setting: Setting) -> None:
    """`make bench-coverage BENCH_ARGS='--of risk'` has more worlds."""
    found = broken(setting, 600, 1_000, seed=7)
    assert found.n_promised > 50
    # Of 1,000 studies with a chance of .1 each, more than 130 break it with a probability of .001.
    assert 0 < found.n_broken <= 130


def test_one_outcome_and_few_answers() -> None:
    n = 120
    signal = np.linspace(0.1, 0.9, n)
    right, all_wrong = rows_of(signal, np.zeros(n)), rows_of(signal, np.ones(n))
    assert {row["area"] for row in (*right, *all_wrong)} == {None}
    assert [row["promised_risk"] for row in right] == [
        *[None] * 16, *(pytest.approx(1 - DELTA ** (1 / 102)) for _ in range(4))
    ]  # fmt: skip
    assert {row["promised_risk"] for row in all_wrong} == {None, 1.0}
    assert rows_of(signal[:49], np.zeros(49)) == []
    assert risk_coverage(pa.table({}), pa.table({})).schema == SCHEMA


def test_a_combination_has_a_curve_but_promises_nothing() -> None:
    signal, wrong = some(200, 3, 1_000)
    rows = rows_of(signal, wrong, popularity=[100.0] * 200)
    curves = {
        name: [row for row in rows if row["signal"] == name]
        for name in ("confidence", "popularity_confidence")
    }
    assert [len(found) for found in curves.values()] == [N_STEPS, N_STEPS]
    assert {row["promised_risk"] for row in curves["popularity_confidence"]} == {None}
    assert {row["area"] for row in curves["confidence"]} != {None}


def test_a_combination_of_constants_orders_no_answers() -> None:
    """Each fold is fitted to other answers. Ranked by what these fits say, the area would be above the risk of all."""
    _, wrong = some(200, 3, 1_000)
    rows = rows_of(np.full(200, 0.5), wrong, popularity=[100.0] * 200, relation=[None] * 200)
    (combined,) = {row["area"] for row in rows if row["signal"] == "popularity_confidence"}
    assert combined == pytest.approx(wrong.mean())


def test_a_pair_answers_from_memory_above_the_threshold_and_else_with_a_passage() -> None:
    rng, n = np.random.default_rng(5), 80
    memory, passage, right, right_with = rng.random((4, n))
    pair = {"dataset": "d", "prompt": "p", "model": "m", "parametric_method": "closed_book", "retrieval_method": "bm25",
            "parametric_confidence": memory.tolist(), "parametric_correct": (right > 0.5).tolist(),
            "retrieval_confidence": passage.tolist(), "retrieval_correct": (right_with > 0.2).tolist(),
            "cluster_id": [f"s{i}" for i in range(n)]}  # fmt: skip
    rows = risk_coverage(pa.table({}), pa.Table.from_pylist([pair])).to_pylist()
    assert {(row["method"], row["fallback_method"], row["signal"]) for row in rows} == {
        ("closed_book", "bm25", "confidence")
    }
    for row in rows:
        threshold = -math.inf if row["threshold"] is None else row["threshold"]
        given = [
            bool(right[i] <= 0.5) if memory[i] > threshold else bool(right_with[i] <= 0.2)
            for i in range(n)
            if memory[i] > threshold or passage[i] > threshold
        ]
        assert (row["n_answered"], row["n_wrong"]) == (len(given), sum(given))
