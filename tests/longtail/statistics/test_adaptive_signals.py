"""Popularity, prediction or both: a planted truth is found, and what cannot decide says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.longtail.statistics.compared_signals import KEY, N_SPLITS, interval, written

Row = dict[str, Any]


def questions(n: int = 240, seed: int = 3) -> Row:
    """Consistency decides whether memory is right, popularity does not. Retrieval is right for two questions of three."""
    rng = np.random.default_rng(seed)
    scons = rng.random(n)
    columns = {
        "question_id": [f"q{i:04}" for i in range(n)],
        "relation": sorted(rng.choice(["", "a", "b"], n).tolist()),
        "popularity": rng.integers(1, 1_000, n).astype(float),
        "parametric": (rng.random(n) < np.where(scons > 0.5, 0.95, 0.05)).astype(float),
        "retrieval": (rng.random(n) < 2 / 3).astype(float),
        "scons": scons,
        "cert": rng.random(n),
        "confidence": rng.random(n),
        "parametric_tokens": np.full(n, 30.0),
        "signal_tokens": np.full(n, 100.0),
        "signal_device_seconds": np.full(n, 0.5),
        "signal_cost_usd": np.full(n, 0.25),
        "signal_latency_ms": np.full(n, 900.0),
        "parametric_device_seconds": np.full(n, 1.0),
        "parametric_cost_usd": np.full(n, 0.5),
        "retrieval_device_seconds": np.full(n, 3.0),
        "retrieval_cost_usd": np.full(n, np.nan),
        "parametric_latency_ms": np.full(n, 50.0),
        "retrieval_latency_ms": np.full(n, 80.0),
    }
    return {
        **KEY,
        "retrieval_method": "bm25",
        "signal_prompt": "p",
        **{name: list(values) for name, values in columns.items()},
    }


def compared(
    *rows: Row, n_splits: int = N_SPLITS, training_share: float = 0.75
) -> tuple[dict[Any, Row], dict[Any, Row]]:
    """The rows of the first two tables, by (retrieval method, signal, scope), and by that and baseline."""
    found = written(*rows, n_splits=n_splits, training_share=training_share)
    names = ("retrieval_method", "signal", "threshold_scope")
    policies = {tuple(row[name] for name in names): row for row in found["signals"]}
    gains = {tuple(row[name] for name in (*names, "baseline")): row for row in found["gains"]}
    assert len(policies) == len(found["signals"])
    assert len(gains) == len(found["gains"])
    return policies, gains


def test_a_signal_that_decides_gains_and_one_that_does_not_gains_nothing() -> None:
    policies, gains = compared(questions())
    assert interval(gains["bm25", "consistency", "all", "fixed"])[0] > 0.05
    assert interval(gains["bm25", "consistency", "all", "popularity_all"])[0] > 0.05
    assert interval(gains["bm25", "all", "all", "fixed"])[0] > 0.05
    vain = gains["bm25", "popularity_relation", "all", "fixed"]
    assert vain["undefined"] or interval(vain)[0] < 0
    assert (
        policies["bm25", "consistency", "all"]["accuracy"]
        > policies["bm25", "popularity", "all"]["accuracy"] + 0.05
    )
    assert not any(row["undefined"] for row in policies.values())


def test_a_signals_paraphrases_and_samples_are_paid_and_popularity_is_free() -> None:
    policies, _ = compared(questions())
    for (_, signal, _), row in policies.items():
        paid = signal in ("consistency", "all")
        # Confidence costs memory's answer, also to each question that is then retrieved for.
        thrown_away = row["share_retrieved"] if "confidence" in signal else 0
        assert row["signal_tokens_per_1000"] == pytest.approx(100_000 if paid else 30_000 * thrown_away)
        assert row["signal_device_seconds_per_1000"] == pytest.approx(500 if paid else 1_000 * thrown_away)
        assert row["signal_cost_usd_per_1000"] == pytest.approx(250 if paid else 500 * thrown_away)
        assert row["signal_latency_ms"] == pytest.approx(900 if paid else 50 * thrown_away)
        assert row["answer_latency_ms"] == pytest.approx(50 + 30 * row["share_retrieved"])
        # Retrieved questions take 3 seconds, the others 1. The price of retrieval is unknown.
        assert row["device_seconds_per_1000"] == pytest.approx(1_000 * (1 + 2 * row["share_retrieved"]))
        assert row["cost_usd_per_1000"] is None


def test_confidence_that_decides_gains_as_thresholds_on_popularity_do() -> None:
    """Confidence in the place of popularity has popularity's numbers; its logarithm joins a prediction."""
    row = questions()
    row["confidence"] = [one / 1_000 for one in row["popularity"]]
    policies, gains = compared(row)
    for scope in ("all", "per_relation"):
        by_popularity, by_confidence = (
            policies["bm25", name, scope] for name in ("popularity", "confidence")
        )
        for name in ("accuracy", "share_retrieved", "device_seconds_per_1000", "answer_latency_ms"):
            assert by_confidence[name] == by_popularity[name]
        same = gains["bm25", "confidence", scope, f"popularity_{scope}"]
        assert (same["gain"], same["undefined"]) == (0, "fewer than 20 subjects decide it")
        assert (
            gains["bm25", "confidence", scope, "never"]["gain"]
            == gains["bm25", "popularity", scope, "never"]["gain"]
        )
    told = questions()
    told["confidence"] = told["scons"]
    policies, gains = compared(told)
    for signal in ("confidence", "popularity_confidence"):
        assert interval(gains["bm25", signal, "all", "fixed"])[0] > 0.05
        assert interval(gains["bm25", signal, "all", "popularity_all"])[0] > 0.05


def test_questions_without_confidence_are_left_out_and_counted() -> None:
    row = questions(120)
    row["confidence"][:9] = [np.nan] * 9
    row["confidence"][9] = 0.0  # has the logarithm of the least confidence
    policies, _ = compared(row)
    assert {(found["n_compared"], found["n_no_confidence"]) for found in policies.values()} == {(111, 9)}
    for known, reason in ((49, "too few questions with confidence"), (0, "no confidence")):
        row["confidence"] = [0.5] * known + [np.nan] * (120 - known)
        policies, gains = compared(row)
        assert policies["bm25", "confidence", "per_relation"]["undefined"] == reason
        assert policies["bm25", "popularity_confidence", "all"]["undefined"] == reason
        assert policies["bm25", "all", "all"]["n_compared"] == 120
        assert not any("confidence" in signal for _, signal, *_ in gains)


def test_held_out_answers_do_not_change_the_signal_that_decides_about_them() -> None:
    """With one split the test questions are the same ones. Their answers turn; which are retrieved for stays."""
    row = questions()
    rng = np.random.default_rng(0)
    is_test = np.array([not len(np.flatnonzero(rng.random(1) < 0.75)) for _ in row["question_id"]])
    turned = {
        **row,
        "parametric": np.where(is_test, rng.permutation(row["parametric"]), row["parametric"]).tolist(),
    }
    assert turned["parametric"] != row["parametric"]
    one, other = (compared(each, n_splits=1)[0] for each in (row, turned))
    for policy, found in one.items():
        assert found["share_retrieved"] == other[policy]["share_retrieved"]
    assert any(found["accuracy"] != other[policy]["accuracy"] for policy, found in one.items())


def test_pairs_with_the_same_memory_share_their_signals() -> None:
    first, rng = questions(120), np.random.default_rng(8)
    second = {
        **first,
        "retrieval_method": "dense",
        "retrieval": (rng.random(120) < 0.5).astype(float).tolist(),
    }
    together, gains = compared(first, second)
    alone, alone_gains = compared(second)
    for (method, signal, scope), row in together.items():
        if method == "dense":
            assert row == alone[method, signal, scope]
    assert all(gains[key] == row for key, row in alone_gains.items())


def test_without_measures_the_signals_that_need_them_have_a_reason_and_popularity_decides() -> None:
    row = {**questions(120), "scons": [np.nan] * 120, "cert": [np.nan] * 120}
    policies, gains = compared(row)
    for (_, signal, _), found in policies.items():
        needs = signal in ("consistency", "all")
        assert found["undefined"] == ("no paraphrases and samples" if needs else None)
        assert (found["accuracy"] is None) == needs
        assert (found["n_compared"], found["n_no_measures"]) == (120, 120)
    assert {signal for _, signal, *_ in gains} == {
        *("popularity", "confidence", "popularity_relation", "popularity_confidence")
    }


def test_all_policies_of_a_pair_are_compared_on_the_questions_with_all_features() -> None:
    row = questions(120)
    row["popularity"][0] = 0.0
    row["cert"][1:11] = [np.nan] * 10
    policies, _ = compared(row)
    for found in policies.values():
        counts = [found[name] for name in ("n_questions", "n_compared", "n_zero_popularity", "n_no_measures")]
        assert counts == [120, 109, 1, 10]
    few = {**questions(120), "cert": [0.5] * 40 + [np.nan] * 80}
    policies, _ = compared(few)
    assert policies["bm25", "all", "all"]["undefined"] == "too few questions with paraphrases and samples"
    assert policies["bm25", "popularity_relation", "all"]["n_compared"] == 120


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"parametric": [0.0] * 120}, "too few answers of one outcome"),
        ({"popularity": [0.0] * 120}, "too few questions"),
    ],
)
def test_what_cannot_be_fitted_is_stated(change: Row, reason: str) -> None:
    policies, _ = compared({**questions(120), **change})
    assert policies["bm25", "popularity_relation", "all"]["undefined"] == reason
    found = policies["bm25", "popularity", "all"]
    assert found["undefined"] == ("no test questions" if "popularity" in change else None)


def test_few_questions_have_popularity_alone_and_no_test_question_has_no_numbers() -> None:
    policies, gains = compared(questions(30))
    assert policies["bm25", "popularity", "all"]["undefined"] is None
    assert policies["bm25", "all", "all"]["undefined"] == "too few questions with paraphrases and samples"
    assert {signal for _, signal, *_ in gains} == {"popularity"}
    assert policies["bm25", "confidence", "all"]["undefined"] == "too few questions with confidence"
    policies, gains = compared(questions(120), training_share=1.0)
    assert {row["undefined"] for row in policies.values()} == {"no test questions"}
    assert not gains


def test_the_rules_of_a_router_divide_the_questions_as_the_signal_does() -> None:
    row = questions(120)
    found = {
        (rule["signal"], rule["threshold_scope"], rule["relation"]): rule for rule in written(row)["rules"]
    }
    assert len(found) == 5 * 2 * 3
    given = {
        name: np.array(row[name])
        for name in ("relation", "popularity", "scons", "cert", "confidence", "parametric", "retrieval")
    }
    values = {
        "popularity": np.log(given["popularity"]),
        "consistency": given["scons"],
        "certainty": given["cert"],
        "confidence": np.log(given["confidence"]),
    }
    of_a = given["relation"] == "a"
    for (signal, scope, relation), rule in found.items():
        assert sum(rule[f"n_{side}"] for side in ("below", "above")) == (
            120 if relation == "all" else (given["relation"] == relation).sum()
        )
        if relation != "a":
            continue
        intercept, *slopes = rule["rule_coefficients"]
        logit = np.full(of_a.sum(), intercept)
        for name, slope, mean, deviation in zip(
            rule["predictor_names"],
            slopes,
            rule["predictor_means"],
            rule["predictor_deviations"],
            strict=True,
        ):
            logit += slope * (values[name][of_a] - mean) / deviation
        is_below = 1 / (1 + np.exp(-logit)) < rule["threshold_probability"] - 1e-9
        if signal == "confidence":
            assert (rule["rule_coefficients"], rule["predictor_names"]) == ([0.0, 1.0], ["confidence"])
            is_below = given["confidence"][of_a] < rule["threshold_probability"]
        assert is_below.sum() == rule["n_below"], (signal, scope)
        assert given["retrieval"][of_a][is_below].sum() == rule["n_below_with"]
        assert given["parametric"][of_a][~is_below].sum() == rule["n_above_without"]
    assert (
        found["consistency", "all", "a"]["rule_coefficients"]
        == found["consistency", "all", "all"]["rule_coefficients"]
    )
    assert found["all", "all", "a"]["rule_coefficients"] != found["all", "all", "b"]["rule_coefficients"]


def test_relations_with_one_outcome_are_counted() -> None:
    row = questions(120)
    row["parametric"] = [
        0.0 if name == "a" else one for name, one in zip(row["relation"], row["parametric"], strict=True)
    ]
    policies, _ = compared(row)
    assert policies["bm25", "all", "all"]["n_one_outcome"] == 1
    assert policies["bm25", "all", "all"]["accuracy"] is not None
