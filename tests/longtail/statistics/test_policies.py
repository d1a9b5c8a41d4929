"""The arena, beside loops over questions and splits, and the exact McNemar test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.subject_worlds import WORLDS, false_gains
from longtail.statistics.adaptive_signals import RESULTS, compare_signals
from longtail.statistics.method_comparisons import mcnemar_exact
from longtail.statistics.policies import _Spread
from tests.longtail.statistics.compared_signals import by_result, decisions_of, questions_of
from tests.longtail.statistics.test_adaptive_signals import questions

Row = dict[str, Any]
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
        questions_of([row if units is None else {**row, "cluster_id": units}]),
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
