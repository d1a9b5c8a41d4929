"""The quality of signals agrees with scikit-learn; its intervals draw whole subjects."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from longtail.statistics import signal_quality
from longtail.statistics.resampling import draws, percentiles, seed_of
from longtail.statistics.signal_quality import (
    BEST,
    COMBINED,
    DECIMALS,
    N_FOLDS,
    N_RESAMPLES,
    SIGNALS,
    Answers,
    Features,
    auroc,
    average_precision,
    calibration_error,
    fit_model,
    folds,
    measure_signals,
    probabilities,
    within_relations,
)

KEY = {"dataset": "d", "prompt": "p", "model": "m", "method": "closed_book"}


def group(n: int = 150, seed: int = 3) -> dict[str, Any]:
    """Answers about 60 subjects in two relations and without one; some signals with ties, gaps, or no value at all."""
    rng = np.random.default_rng(seed)
    known = rng.normal(size=n)
    correct = rng.uniform(size=n) < 1 / (1 + np.exp(-known))
    confidence = np.round(1 / (1 + np.exp(-known + rng.normal(size=n))), 2)
    found: dict[str, Any] = dict.fromkeys(SIGNALS, [None] * n)
    return {
        **KEY, **found, "subject": [f"Q{i}" for i in rng.integers(0, 60, n)],
        "relation": list(rng.choice(["father", "sport", None], n, p=[0.5, 0.3, 0.2])),
        "is_correct": correct.tolist(), "confidence": [None, *confidence[1:].tolist()],
        "popularity": np.round(10 ** (2 + known + rng.normal(size=n))).tolist(),
        "mean_entropy": (2 - 0.1 * known).tolist(),
    }  # fmt: skip


def measured(rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = measure_signals(pa.Table.from_pylist([rows]), 11).to_pylist()
    return {row["measured_signal"]: row for row in found}


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    return group()


@pytest.fixture(scope="module")
def quality(rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return measured(rows)


def of(rows: dict[str, Any], *names: str) -> list[np.ndarray]:
    """The columns of the answers whose confidence is known."""
    return [
        np.array(rows[name][1:], dtype=object if name in ("subject", "relation") else float) for name in names
    ]


def test_signals_without_a_value_are_no_rows_and_unknown_values_no_answers(
    quality: dict[str, dict[str, Any]],
) -> None:
    assert {name: row["n_known"] for name, row in quality.items()} == {
        "popularity": 150, "confidence": 149, "mean_entropy": 150, COMBINED: 149, BEST: 149
    }  # fmt: skip
    assert all(row["undefined"] is None and KEY.items() <= row.items() for row in quality.values())


def test_counts_of_texts_are_signals_by_their_own_names(rows: dict[str, Any]) -> None:
    """Each answer has (measure, number) pairs; an answer without a measure is not known by it."""
    counts = [[("leads_pair_sentence", i % 7)] if i % 3 else None for i in range(150)]
    column = pa.array([counts], pa.list_(pa.map_(pa.string(), pa.int64())))
    table = pa.Table.from_pylist([rows]).append_column("counts", column)
    found = {row["measured_signal"]: row for row in measure_signals(table, 11).to_pylist()}
    known = [i for i in range(150) if i % 3]
    right = np.array(rows["is_correct"])[known]
    assert found["leads_pair_sentence"]["n_known"] == len(known)
    assert found["leads_pair_sentence"]["auroc"] == pytest.approx(
        roc_auc_score(right, [i % 7 for i in known])
    )
    assert set(found) == {"popularity", "confidence", "mean_entropy", COMBINED, BEST, "leads_pair_sentence"}


def test_areas_are_those_of_scikit_learn(rows: dict[str, Any], quality: dict[str, dict[str, Any]]) -> None:
    correct, confidence = of(rows, "is_correct", "confidence")
    assert quality["confidence"]["auroc"] == pytest.approx(roc_auc_score(correct, confidence))
    assert quality["confidence"]["average_precision"] == pytest.approx(
        average_precision_score(correct, confidence)
    )
    entropy = np.array(rows["mean_entropy"])
    assert quality["mean_entropy"]["auroc"] == pytest.approx(roc_auc_score(rows["is_correct"], -entropy))


def test_the_best_signal_is_chosen_on_other_subjects_and_ranks_within_a_fold(
    rows: dict[str, Any], quality: dict[str, dict[str, Any]]
) -> None:
    correct, subject = of(rows, "is_correct", "subject")
    scores = dict(zip(("popularity", "confidence"), of(rows, "popularity", "confidence"), strict=True))
    scores["mean_entropy"] = -of(rows, "mean_entropy")[0]
    subjects, number = np.unique(subject.astype(str), return_inverse=True)
    fold = folds(subjects)[number]
    above = pairs = 0.0
    chosen = set()
    for one in range(N_FOLDS):
        here = fold == one
        best = max(scores, key=lambda name: roc_auc_score(correct[~here], scores[name][~here]))
        chosen.add(best)
        n = correct[here].sum() * (1 - correct[here]).sum()
        above += n * roc_auc_score(correct[here], scores[best][here])
        pairs += n
    assert quality[BEST]["auroc"] == pytest.approx(above / pairs)
    assert quality[BEST]["chosen_signals"] == ", ".join(sorted(chosen))
    assert quality["confidence"]["chosen_signals"] is None
    only = {**rows, "popularity": [None] * 150, "mean_entropy": [None] * 150}
    assert BEST not in measured(only)


def test_within_relations_pairs_of_one_relation_count(rows: dict[str, Any]) -> None:
    correct, confidence, relation = of(rows, "is_correct", "confidence", "relation")
    above = pairs = 0.0
    for i, j in itertools.permutations(range(len(correct)), 2):
        if correct[i] and not correct[j] and relation[i] is not None and relation[i] == relation[j]:
            pairs += 1
            above += 1.0 if confidence[i] > confidence[j] else 0.5 if confidence[i] == confidence[j] else 0.0
    names, fold = np.array([name or "" for name in relation]), np.zeros(len(correct), dtype=int)
    assert within_relations(confidence, correct, names, fold) == pytest.approx(above / pairs)
    assert within_relations(confidence, correct, np.full(len(correct), ""), fold) is None


def test_intervals_are_percentiles_over_draws_of_whole_subjects(
    rows: dict[str, Any], quality: dict[str, dict[str, Any]]
) -> None:
    correct, popularity = np.array(rows["is_correct"], dtype=float), np.array(rows["popularity"])
    subjects, subject = np.unique(rows["subject"], return_inverse=True)
    drawn = draws(len(subjects), N_RESAMPLES, np.random.default_rng(seed_of(11, KEY.values())))
    expected = np.array([roc_auc_score(correct, popularity, sample_weight=one[subject]) for one in drawn])
    row = quality["popularity"]
    n_rarer = min(len(set(subject[correct == one])) for one in (0, 1))
    assert (row["auroc_ci_low"], row["auroc_ci_high"], row["no_interval"]) == (
        *map(pytest.approx, percentiles(expected, n_rarer) or ()), None
    )  # fmt: skip


def test_the_same_questions_asked_twice_make_no_interval_narrower(
    rows: dict[str, Any], quality: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal_quality, "_CHUNK", 10_000)
    doubled = measured({name: value if name in KEY else [*value, *value] for name, value in rows.items()})
    for end in ("auroc", "auroc_ci_low", "auroc_ci_high"):
        assert doubled["confidence"][end] == pytest.approx(quality["confidence"][end])


def test_probabilities_come_from_other_subjects(
    rows: dict[str, Any], quality: dict[str, dict[str, Any]]
) -> None:
    correct, confidence, subject = of(rows, "is_correct", "confidence", "subject")
    subjects, number = np.unique(subject.astype(str), return_inverse=True)
    fold = folds(subjects)[number]
    assert set(fold) == set(range(N_FOLDS))
    predicted, logs = np.empty(len(correct)), np.log(np.maximum(confidence, 1e-30))[:, None]
    for held_out in range(N_FOLDS):
        mine = fold == held_out
        scale = StandardScaler().fit(logs[~mine])
        fitted = LogisticRegression(tol=1e-10).fit(scale.transform(logs[~mine]), correct[~mine])
        predicted[mine] = fitted.predict_proba(scale.transform(logs[mine]))[:, 1]
    row = quality["confidence"]
    assert row["brier"] == pytest.approx(brier_score_loss(correct, predicted), abs=1e-6)
    assert row["calibration_error"] == pytest.approx(calibration_error(predicted, correct), abs=1e-6)


def test_a_fitted_signal_ranks_answers_of_one_fold_only(
    rows: dict[str, Any], quality: dict[str, dict[str, Any]]
) -> None:
    """Of its probabilities, each fold has its own fit: pairs of two folds are none."""
    correct, subject, relation = of(rows, "is_correct", "subject", "relation")
    answers = Answers(correct, subject.astype(str), np.array([name or "" for name in relation]))
    predictors = np.column_stack([
        np.log1p(of(rows, "popularity")[0]), np.log(np.maximum(of(rows, "confidence")[0], 1e-30))
    ])  # fmt: skip
    fitted = answers.cross_fit(predictors, with_relations=True)
    above = pairs = within = pairs_within = 0.0
    precision = []
    for fold in range(N_FOLDS):
        mine = answers.fold == fold
        n_pairs = correct[mine].sum() * (1 - correct[mine]).sum()
        above += n_pairs * roc_auc_score(correct[mine], fitted[mine])
        pairs += n_pairs
        precision += [average_precision_score(correct[mine], fitted[mine])] * int(correct[mine].sum())
        for name in ("father", "sport"):
            both = mine & (answers.relation == name)
            n_pairs = correct[both].sum() * (1 - correct[both]).sum()
            within += n_pairs * roc_auc_score(correct[both], fitted[both]) if n_pairs else 0
            pairs_within += n_pairs
    row = quality[COMBINED]
    assert row["auroc"] == pytest.approx(above / pairs)
    assert row["auroc_within"] == pytest.approx(within / pairs_within)
    assert row["average_precision"] == pytest.approx(np.mean(precision))


def test_a_constant_signal_says_nothing(rows: dict[str, Any]) -> None:
    """Ranked together, folds of which others are more often right stand lower: .34 and not .5."""
    constant = {**rows, "popularity": [7.0] * 150, "confidence": [0.5] * 150, "relation": [None] * 150}
    row = measured(constant)[COMBINED]
    assert row["auroc"] == 0.5
    assert (row["auroc_ci_low"], row["no_interval"]) == (None, "all resamples are equal")


@pytest.mark.parametrize(
    ("n_right", "n_subjects", "reason"),
    [(9, 150, "fewer than 10 right answers"), (141, 150, "fewer than 10 wrong answers"),
     (75, 19, "fewer than 20 subjects"), (10, 20, None)],
)  # fmt: skip
def test_too_few_of_an_outcome_or_subjects_have_a_reason_and_no_interval(
    rows: dict[str, Any], n_right: int, n_subjects: int, reason: str | None
) -> None:
    correct = np.random.default_rng(0).permutation(np.arange(150) < n_right).tolist()
    row = measured({**rows, "is_correct": correct, "subject": [f"Q{i % n_subjects}" for i in range(150)]})
    found = row["popularity"]
    assert found["no_interval"] == reason
    assert (found["auroc_ci_low"] is None) == (found["auroc_ci_high"] is None) == (reason is not None)
    assert found["auroc"] is not None


def test_calibration_error_by_hand() -> None:
    """15 bins of two: each has the probability .25, and one of the two is right in every third bin."""
    correct = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0] * 5)
    assert calibration_error(np.full(30, 0.25), correct) == pytest.approx((5 * 0.25 + 10 * 0.25) / 15)
    assert calibration_error(np.arange(15) / 15, np.arange(15) / 15) == 0


def test_ties_count_half_and_the_order_of_answers_nothing() -> None:
    score, correct = np.array([1.0, 1.0, 2.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])
    assert auroc(score, correct) == 3.5 / 4
    assert average_precision(score, correct, np.zeros(4)) == pytest.approx((1 + 2 / 3) / 2)
    backwards = slice(None, None, -1)
    assert auroc(score[backwards], correct[backwards]) == 3.5 / 4


@pytest.mark.parametrize(
    ("changed", "n", "reason"),
    [
        ({"is_correct": [True] * 150}, 150, "all answers are right"),
        ({"is_correct": [False] * 150}, 150, "all answers are wrong"),
        ({"subject": ["Q1"] * 150}, 150, "one subject"),
        ({}, 49, "fewer than 50 answers"),
    ],
)
def test_what_cannot_be_measured_has_a_reason_instead_of_numbers(
    rows: dict[str, Any], changed: dict[str, Any], n: int, reason: str
) -> None:
    group = {name: value if name in KEY else value[:n] for name, value in {**rows, **changed}.items()}
    row = measured(group)["popularity"]
    assert (row["undefined"], row["auroc"], row["brier"], row["n_known"]) == (reason, None, None, n)
    assert row["no_interval"] == reason


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
