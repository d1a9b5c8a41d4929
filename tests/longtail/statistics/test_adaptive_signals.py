"""Popularity, prediction or both: a planted truth is found, and what cannot decide says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.subject_worlds import WORLDS, false_gains
from longtail.statistics.adaptive_signals import RESULTS, _Spread, compare_signals
from longtail.statistics.paired_comparisons import mcnemar_exact
from tests.longtail.statistics.compared_signals import (
    KEY,
    N_SPLITS,
    by_result,
    decisions_of,
    interval,
    questions_of,
    written,
)

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


N_SPLITS, N = 12, 240
Said = Mapping[str, Mapping[str, bool | float]]


def trains_of(n: int = N) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [np.flatnonzero(rng.random(N_SPLITS) < 0.75).tolist() for _ in range(n)]


def arena(
    row: Row, others: Said | None = None, units: list[str] | None = None, *, is_split: bool = True
) -> dict[str, Row]:
    """By policy, its row. `others`: policy → question → decision or score."""
    ids = row["question_id"] if is_split else []
    tables = [
        [questions_of([row if units is None else {**row, "cluster_id": units}])],
        pa.table({"dataset": ["d"] * len(ids), "question_id": ids, "trains": trains_of(len(ids))}),
        pa.table({"dataset": ["d"][: len(ids)], "n": [N_SPLITS][: len(ids)]}),
        decisions_of(others or {}),
    ]
    found = by_result(compare_signals(*tables, 0), RESULTS)["policies"]
    assert len({one["policy"] for one in found}) == len(found)
    return {one["policy"]: one for one in found}


def by_loops(row: Row, *by_split: list[float]) -> tuple[float, float]:
    """Held-out accuracy and share retrieved below a threshold on the values of each split, or of all splits: each
    question, then its splits, one by one."""
    parametric, retrieval, trains = row["parametric"], row["retrieval"], trains_of()
    limits = []
    for split in range(N_SPLITS):
        values, mine = by_split[split % len(by_split)], [i for i in range(N) if split in trains[i]]
        best, limit = 0.0, min(values[i] for i in mine)
        for candidate in (*sorted({values[i] for i in mine}), float("inf")):
            gain = sum(retrieval[i] - parametric[i] for i in mine if values[i] < candidate)
            if gain > best:
                best, limit = gain, candidate
        limits.append(limit)
    right, share = [], []
    for i in range(N):
        tests = [
            by_split[split % len(by_split)][i] < limits[split]
            for split in range(N_SPLITS)
            if split not in trains[i]
        ]
        if tests:
            share.append(np.mean(tests))
            right.append(np.mean([retrieval[i] if one else parametric[i] for one in tests]))
    return float(np.mean(right)), float(np.mean(share))


def test_thresholds_and_scores_equal_loops_over_questions() -> None:
    row = questions()
    scores = {one: -value for one, value in zip(row["question_id"], row["scons"], strict=True)}
    found = arena(row, {"theirs": scores})
    for policy, values in (("popularity", "popularity"), ("confidence", "confidence"), ("theirs", "scons")):
        accuracy, share = by_loops(row, row[values])
        assert found[policy]["policy_accuracy"] == pytest.approx(accuracy)
        assert found[policy]["policy_share_retrieved"] == pytest.approx(share)
    assert found["theirs"]["gap_share_ci_low"] > 0 < found["consistency"]["policy_gain_ci_low"]
    assert found["theirs"]["policy_p_value"] < 0.001
    vain = found["popularity"]
    assert vain["no_gain_interval"] is not None
    assert vain["policy_gain_ci_low"] is vain["policy_p_value"] is None


def test_the_best_signal_is_chosen_on_the_training_questions_of_each_split() -> None:
    rng = np.random.default_rng(5)
    row = questions()
    blurred = {
        name: np.array(row["scons"]) + rng.normal(0, 0.2, N) for name in ("first_probability", "mean_entropy")
    }
    for name, sign in (("first_probability", 1), ("mean_entropy", -1)):
        row[name] = (sign * blurred[name]).tolist()
    row["scons"] = [None] * N
    row["least_probability"] = [1.0] * 239 + [None]  # unknown for a question: cannot be chosen
    trains, chosen = trains_of(), []
    for split in range(N_SPLITS):
        mine = [i for i in range(N) if split in trains[i]]
        right = np.array(row["parametric"])[mine]
        chosen.append(max(blurred, key=lambda name: roc_auc_score(right, blurred[name][mine])))
    found = arena({**row, "retrieval_cost_usd": [2.0] * N})["best_signal"]
    assert {*found["chosen_signals"].split(", ")} == {*chosen} == {*blurred}
    assert chosen.count(found["chosen_signals"].split(", ")[0]) >= N_SPLITS / 2
    accuracy, share = by_loops(row, *(blurred[name].tolist() for name in chosen))
    assert found["policy_accuracy"] == pytest.approx(accuracy)
    assert found["policy_share_retrieved"] == pytest.approx(share)
    assert found["policy_gain_ci_low"] > 0 < 0.05 > found["policy_p_value"]
    # Both come with memory's answer, which is paid for each question.
    assert found["policy_cost_usd_per_1000"] == pytest.approx(500 + 2_000 * share)


def test_paraphrases_and_samples_of_the_best_signal_are_paid() -> None:
    found = arena({**questions(), "retrieval_cost_usd": [2.0] * N})
    best = found["best_signal"]
    assert best["chosen_signals"] == "scons"
    assert best["policy_cost_usd_per_1000"] == pytest.approx(
        500 + 250 + 1_500 * best["policy_share_retrieved"]
    )
    assert {one["chosen_signals"] for name, one in found.items() if name != "best_signal"} == {None}


def test_where_no_signal_says_anything_the_best_one_seldom_seems_to_gain() -> None:
    """40 studies of noise, of nine signals each: p is below .05 in favour for two of them (`coverage --of policies`)."""
    studies = false_gains(WORLDS["50% right, correlation 0.2"], 60, range(40), is_clustered=True)
    assert sum((study["p ≥ .05 in favour without an effect"].high or 1) < 0.05 for study in studies) <= 2


def test_fixed_methods_the_oracle_and_decisions_of_others_are_counted_by_hand() -> None:
    """Each question counts once; a gap is the part of the way from the better fixed method to the oracle."""
    row = {**questions(), "retrieval_cost_usd": [2.0] * N}
    memory, passage = np.array(row["parametric"]), np.array(row["retrieval"])
    tested = np.array([len(one) < N_SPLITS for one in trains_of()])
    half = {one: bool(i % 2) for i, one in enumerate(row["question_id"]) if i < 100}
    found = arena(
        row, {"half": half, "always": dict.fromkeys(row["question_id"], True), "lost": {"other": True}}
    )
    assert {"lost"}.isdisjoint(found)
    assert found["never"]["policy_accuracy"] == pytest.approx(memory[tested].mean())
    assert found["always"]["policy_accuracy"] == pytest.approx(passage[tested].mean())
    assert found["oracle"]["policy_accuracy"] == pytest.approx(np.maximum(memory, passage)[tested].mean())
    assert [found[one]["policy_share_retrieved"] for one in ("never", "always")] == [0, 1]
    assert [found[one]["policy_cost_usd_per_1000"] for one in ("never", "always")] == [500, 2_000]
    confident = found["confidence"]  # memory's answer is paid for each question
    assert confident["policy_cost_usd_per_1000"] == pytest.approx(
        500 + 2_000 * confident["policy_share_retrieved"]
    )
    same = found["always (imported)"]
    assert (same["policy_accuracy"], same["n_decided"]) == (found["always"]["policy_accuracy"], tested.sum())
    part = tested & (np.arange(N) < 100)
    chosen = np.where(np.arange(N) % 2, passage, memory)[part].mean()
    better, best = max(memory[part].mean(), passage[part].mean()), np.maximum(memory, passage)[part].mean()
    assert found["half"]["n_decided"] == part.sum()
    assert found["half"]["policy_accuracy"] == pytest.approx(chosen)
    assert found["half"]["gap_share"] == pytest.approx((chosen - better) / (best - better))
    assert found["oracle"]["gap_share"] == 1
    assert found["oracle"]["policy_p_value"] is None


def test_p_is_mcnemars_where_every_question_has_its_own_subject() -> None:
    row = questions()
    found = arena(row, is_split=False)
    memory, passage = np.array(row["parametric"]), np.array(row["retrieval"])
    exact = mcnemar_exact(
        int(((memory == 1) & (passage == 0)).sum()), int(((memory == 0) & (passage == 1)).sum())
    )
    worse, better = sorted(("never", "always"), key=lambda name: found[name]["policy_accuracy"])
    assert found[worse]["policy_p_value"] == pytest.approx(exact, abs=0.01)
    assert found[better]["policy_p_value"] is None


def test_a_policy_compared_with_itself_has_no_interval_of_its_gain_and_no_p() -> None:
    found = arena(questions(), is_split=False)
    better = max(("never", "always"), key=lambda name: found[name]["policy_accuracy"])
    itself, oracle = found[better], found["oracle"]
    assert (itself["policy_gain"], itself["policy_p_value"], itself["policy_gain_ci_low"]) == (0, None, None)
    assert itself["no_gain_interval"] == "fewer than 20 subjects decide it"
    assert itself["policy_accuracy_ci_low"] < itself["policy_accuracy"] < itself["policy_accuracy_ci_high"]
    assert (oracle["gap_share"], oracle["gap_share_ci_low"]) == (1, None)
    assert oracle["no_gap_interval"] == "all resamples are equal"


def test_a_few_subjects_or_answers_of_one_outcome_have_a_reason_instead_of_an_interval() -> None:
    row = questions(60)
    few = arena(row, units=[f"s{i % 19}" for i in range(60)], is_split=False)["always"]
    assert few["no_interval"] == few["no_gain_interval"] == few["no_gap_interval"] == "fewer than 20 subjects"
    row["parametric"] = [1.0] * 51 + [0.0] * 9
    nearly = arena(row, is_split=False)["never"]
    assert (nearly["no_interval"], nearly["policy_accuracy_ci_low"]) == ("fewer than 10 wrong answers", None)


def test_fits_that_vary_widen_the_interval_and_raise_p() -> None:
    """Forty subjects gain .1 each of 100. Refitting varies by three times what scoring does: both count half."""
    rng = np.random.default_rng(0)
    right = np.zeros((100, 4))  # never, always, oracle, fixed
    shares = np.column_stack([right[:, :3], np.zeros(100), np.repeat([1.0, 0.0], [60, 40])])
    difference = np.repeat([1.0, -1.0, 0.0], [35, 25, 40])
    gains = rng.normal(size=(500, 1)) * np.ones(2)
    scoring = (60 - 10**2 / 100) / 100**2 * 100 / 99
    gains *= np.sqrt(3 * scoring / np.cov(gains.T)[0, 1])
    names = ["never", "always", "oracle", "fixed", "mine"]
    given = (names, shares, np.repeat([0.0, 1.0, 0.0], [35, 25, 40]), difference, np.arange(100))
    alone, stretched = (
        _Spread(*given, resampled, settled=True, seed=1).of("mine") for resampled in ({}, {"mine": gains})
    )
    for one in (alone, stretched):
        assert one["policy_gain"] == pytest.approx(0.1)
    for end in ("low", "high"):
        reach, wider = (one[f"policy_gain_ci_{end}"] - 0.1 for one in (alone, stretched))
        assert wider == pytest.approx(np.sqrt(2) * reach)
    # A normal deviate of 10 / sqrt(60) = 1.29, and of .91: p is .20 and .36, but for steps of the sum.
    assert alone["policy_p_value"] == pytest.approx(0.245, abs=0.02)
    assert stretched["policy_p_value"] == pytest.approx(0.36, abs=0.04)


def test_intervals_are_wider_where_subjects_repeat() -> None:
    """Twelve questions about one subject with one outcome say no more than one."""
    row = questions()
    row["parametric"] = [float(i // 12 % 2) for i in range(N)]
    alone, together = (
        arena(row, units=units, is_split=False)["never"]
        for units in (None, [f"s{i // 12}" for i in range(N)])
    )
    width, wider = (
        one["policy_accuracy_ci_high"] - one["policy_accuracy_ci_low"] for one in (alone, together)
    )
    assert wider > 2.5 * width
    assert alone["policy_accuracy"] == together["policy_accuracy"] == 0.5


def test_questions_without_popularity_have_fixed_methods_the_oracle_and_others() -> None:
    row = {**questions(), "popularity": [float("nan")] * N, "confidence": [float("nan")] * N,
           "scons": [float("nan")] * N, "cert": [float("nan")] * N}  # fmt: skip
    found = arena(row, {"theirs": dict.fromkeys(row["question_id"], False)}, is_split=False)
    assert set(found) == {"never", "always", "oracle", "theirs"}
    assert found["theirs"]["policy_gain"] == found["never"]["policy_gain"]
    scores = {one: -value for one, value in zip(row["question_id"], questions()["scons"], strict=True)}
    scored = arena(row, {"scored": scores})
    assert set(scored) == {"never", "always", "oracle", "scored"}
    assert scored["scored"]["policy_accuracy"] == pytest.approx(by_loops(row, questions()["scons"])[0])
    sure = arena({**row, "confidence": questions()["scons"]})
    assert set(sure) == {"never", "always", "oracle", "confidence", "best_signal"}
    assert sure["best_signal"]["policy_accuracy"] == sure["confidence"]["policy_accuracy"]
    assert sure["best_signal"]["policy_accuracy"] == scored["scored"]["policy_accuracy"]


def test_an_oracle_that_gains_nothing_leaves_no_gap() -> None:
    found = arena({**questions(), "retrieval": [1.0] * N}, is_split=False)
    assert {one["gap_share"] for one in found.values()} == {None}
    assert {one["no_gap_interval"] for one in found.values()} == {"the oracle gains nothing"}
    assert found["always"]["policy_accuracy"] == found["oracle"]["policy_accuracy"] == 1
