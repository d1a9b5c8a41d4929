"""The lake tables of performance prediction: which questions count, and what the marts make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import brier_score_loss, roc_auc_score

from longtail.statistics.prediction import (
    ESTIMATORS,
    LEFT_OUT,
    N_FOLDS,
    RESULTS,
    SIGNALS,
    CrossFitted,
    cross_fit,
    hard_relations,
    predict_questions,
    regress_correctness,
)
from longtail.statistics.prediction_fit import ABLATIONS, Questions, training_questions
from longtail.statistics.results import MADE_FROM
from longtail.study.study import Study
from tests.longtail.statistics.compared_signals import by_result
from tests.longtail.statistics.predicted_questions import planted_questions, random_questions
from tests.warehouses import AWKWARD, built_study, mart

KEY = ["dataset", "prompt", "model"]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    names = (
        *KEY,
        "question_id",
        "relation",
        "subject",
        "is_correct",
        "subject_popularity",
        "scons",
        "cert",
        "undefined",
    )
    types = dict(
        is_correct=pa.bool_(), subject_popularity=pa.float64(), scons=pa.float64(), cert=pa.float64()
    )
    return pa.Table.from_pylist(
        rows, schema=pa.schema([(name, types.get(name, pa.string())) for name in names])
    )


def tables(rows: list[dict[str, Any]]) -> list[pa.Table]:
    questions = {"dataset": "d", "question_ids": sorted({row["question_id"] for row in rows})}
    return [table(rows), pa.Table.from_pylist([questions] if rows else [])]


def predicted(read: list[pa.Table]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the regressions by result, and those of questions."""
    questions = predict_questions(*read, 7).drop_columns([MADE_FROM]).to_pylist()
    return {**by_result(regress_correctness(*read, 7), RESULTS), "questions": questions}


def whole_rows(seed: int, model: str) -> list[dict[str, Any]]:
    questions = random_questions(seed, n_per_relation=30, n_relations=2)
    return [
        {
            "dataset": "d", "prompt": "p", "model": model, "question_id": f"q{at:02d}", "subject": f"s{at}",
            "relation": str(questions.relation[at]), "is_correct": bool(questions.correct[at]),
            "subject_popularity": float(np.exp(popularity)), "scons": scons, "cert": cert, "undefined": None,
        }
        for at, (popularity, scons, cert) in enumerate(questions.predictors.tolist())
    ]  # fmt: skip


def test_every_question_is_fitted_or_counted_with_its_reason() -> None:
    rows = whole_rows(1, "m")
    lacking = {"no answer": "is_correct", "no relation": "relation", "no popularity": "subject_popularity",
               "no consistency": "scons", "no certainty": "cert"}  # fmt: skip
    for at, (reason, column) in enumerate(lacking.items()):
        rows[at] |= {column: None, "undefined": reason}
    rows[5] |= {"subject_popularity": 0.0, "undefined": "popularity 0"}
    found = predicted(tables(rows))
    models = pd.DataFrame(found["models"])
    assert len(models) == 2 * 2 * len(ABLATIONS)
    assert (models[list(LEFT_OUT.values())] == 1).all(axis=None)
    assert (models.n_questions == 60).all()
    scored = models.n_scored.fillna(0)
    assert (models.n_fitted + scored + models.n_hard_relations == 54).all()
    assert scored[models.fit == "held_out"].nunique() == 1, "all ablations are scored on the same questions"
    predictions = pd.DataFrame(found["questions"])
    assert len(predictions) == 60 * 6
    assert set(predictions[predictions.probability.isna()].undefined) == set(LEFT_OUT)
    assert predictions.probability.isna().sum() == 6 * 6


def test_without_samples_nothing_is_fitted_and_without_questions_there_is_nothing() -> None:
    rows = [row | {"cert": None, "undefined": "no certainty"} for row in whole_rows(2, "m")]
    found = predicted(tables(rows))
    assert {(row["undefined"], row["n_fitted"]) for row in found["models"]} == {("no questions", 0)}
    assert {row["score_undefined"] for row in found["models"]} == {None, "no questions to fit"}
    assert found["terms"] == found["coefficients"] == []
    assert {row["undefined"] for row in found["questions"]} == {"no certainty"}
    assert not any(predicted(tables([])).values())


def test_a_model_gets_the_same_rows_without_the_other_models() -> None:
    """Also where these have answered more questions, which decide with the others which ones are fitted."""
    mine, others = whole_rows(3, "m")[:-7], whole_rows(4, "others")
    together, split = predicted(tables(mine + others)), tables(mine + others)[1]
    alone = predicted([table(mine), split])
    assert alone == {name: [row for row in rows if row["model"] == "m"] for name, rows in together.items()}
    assert all(alone.values())


def test_a_relation_is_hard_by_all_its_answers() -> None:
    relation = np.array(["a"] * 10 + ["b"] * 10 + ["c", None], dtype=object)
    correct = np.array(
        [True] + [False] * 9 + [True, True] + [False] * 7 + [None] + [None, True], dtype=object
    )
    assert hard_relations(relation, correct) == {"a"}  # exactly a tenth is not above it; c has no answer


def test_training_questions_are_the_same_whatever_their_order() -> None:
    ids = [f"q{number}" for number in range(101)]
    chosen = training_questions(ids, seed=1)
    assert len(chosen) == 81
    assert chosen == training_questions([*reversed(ids), *ids], seed=1) != training_questions(ids, seed=2)


@pytest.fixture
def awkward(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(AWKWARD, monkeypatch)


def test_scores_of_the_mart_are_those_of_scikit_learn(awkward: Study) -> None:
    predictions = mart(awkward, "fct_question_predictions")
    of_study = mart(awkward, "int_prediction_rows", schema="intermediate")
    assert len(predictions) == 6 * len(of_study)
    key = [*KEY, "estimator", "signal"]
    scores = mart(awkward, "fct_prediction_scores").set_index(key)
    known = predictions.dropna(subset=["probability"])
    groups = {name: rows for name, rows in known.groupby(key)}
    assert set(groups) == set(scores[scores.n > 0].index)
    for name, rows in groups.items():
        right = rows.is_correct.astype(bool)
        folds = [(right[at], rows.probability[at]) for at in rows.groupby("fold").groups.values()]
        pairs = [sum(is_right) * sum(~is_right) for is_right, _ in folds]
        areas = [roc_auc_score(*fold) if n else 0 for fold, n in zip(folds, pairs, strict=True)]
        assert scores.loc[name].auroc == pytest.approx(np.average(areas, weights=pairs), rel=1e-9)
        assert scores.loc[name].brier == pytest.approx(brier_score_loss(right, rows.probability), rel=1e-9)
        bins = np.minimum((rows.probability * 10).astype(int), 9)
        off = (rows.probability - right).groupby(bins).sum().abs().sum() / len(rows)
        assert scores.loc[name].expected_calibration_error == pytest.approx(off, abs=1e-9)


def test_the_marts_hold_both_settings_fits_and_all_ablations(awkward: Study) -> None:
    models = mart(awkward, "fct_prediction_models")
    assert len(models) == models.groupby(KEY).ngroups * 2 * 2 * len(ABLATIONS)
    fitted = models.query("fit == 'all_rows' and setting == 'all_relations'")
    assert (fitted.n_zero_popularity > 0).all()
    assert (fitted.n_no_popularity > 0).all()
    assert (fitted.query("predictors == 'all'").n_separated > 0).all(), "the relation of one question"
    best = fitted.pivot(index=KEY, columns="predictors", values="log_likelihood")
    assert (best["all"] >= best["without_popularity"] - 1e-9).all()
    assert (best["without_relation"] >= best["scons_cert"] - 1e-9).all()
    assert (best["scons_cert"] >= best[["cert", "scons"]].max(axis=1) - 1e-9).all()
    coefficients = mart(awkward, "fct_prediction_coefficients")
    assert coefficients[coefficients.is_separated].beta.isna().all()
    assert set(mart(awkward, "fct_prediction_terms").term) >= {"Intercept", "QCat", "QCat:log(SPop)", "Cert"}


def test_diagnostics_count_every_question_once_for_each_predictor(awkward: Study) -> None:
    diagnostics = mart(awkward, "fct_prediction_diagnostics")
    used = mart(awkward, "int_prediction_rows", schema="intermediate").query(
        "undefined.isna()", engine="python"
    )
    counted = diagnostics.groupby([*KEY, "predictor"]).n.sum().unstack()
    pd.testing.assert_series_equal(
        counted["scons"], used.groupby(KEY).size(), check_names=False, check_dtype=False
    )
    assert (counted.nunique(axis=1) == 1).all()
    assert diagnostics.is_central.mean() > 0.5


def test_the_correlation_over_relations_is_that_of_scipy(awkward: Study) -> None:
    relations = mart(awkward, "fct_semantic_consistency").query("relation != 'all'")
    found = mart(awkward, "fct_consistency_correlation").set_index([*KEY, "measure"])
    assert len(found) == 2 * relations.groupby(KEY).ngroups
    for (*group, measure), row in found.iterrows():
        mine = relations.set_index(KEY).loc[tuple(group)].dropna(subset=[measure])
        assert row.n_relations == len(mine)
        if row.undefined is not None:
            assert len(mine) < 4 or mine.accuracy.nunique() == 1
            continue
        expected = pearsonr(mine[measure], mine.accuracy)
        ours, theirs = (
            [row.pearson, row.ci_low, row.ci_high],
            [expected.statistic, *expected.confidence_interval()],
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


NAMES = {(estimator, signal.name) for estimator in ESTIMATORS for signal in SIGNALS}


def fitted(questions: Questions, subject: np.ndarray) -> dict[tuple[str, str], CrossFitted]:
    found = {(one.estimator, one.signal): one for one in cross_fit(questions, subject, seed=1)}
    assert set(found) == NAMES
    return found


def test_what_was_planted_is_predicted_and_calibrated() -> None:
    questions = planted_questions(np.array([[0.0, 1.5, 1.0, 0.0], [0.5, -1.5, 1.0, 0.5]]), 400, seed=0)
    found = fitted(questions, np.arange(800).astype(str))
    auroc = {name: roc_auc_score(questions.correct, one.probability) for name, one in found.items()}
    for estimator in ESTIMATORS:
        # Popularity helps in one relation and harms in the other: only with the relation it tells anything.
        assert auroc[estimator, "all"] > auroc[estimator, "popularity_relation"] > 0.65
        assert auroc[estimator, "all"] > auroc[estimator, "consistency"] + 0.05 > 0.65
        probability = found[estimator, "all"].probability
        for low, high in ((0, 0.3), (0.3, 0.7), (0.7, 1)):
            rows = (probability >= low) & (probability <= high)
            assert questions.correct[rows].mean() == pytest.approx(probability[rows].mean(), abs=0.1)


def test_questions_of_one_subject_stay_together_and_teach_nothing_about_each_other() -> None:
    """Four copies of each question, with random outcomes that the copies share: only a leak could predict them."""
    rng = np.random.default_rng(1)
    subject = np.repeat(np.arange(100), 4).astype(str)
    questions = Questions(
        np.full(400, "father"),
        np.repeat(rng.uniform(size=100) < 0.5, 4),
        np.repeat(rng.normal(size=(100, 3)), 4, axis=0),
    )
    for one in fitted(questions, subject).values():
        assert {len(set(one.fold[subject == name])) for name in subject} == {1}
        assert set(one.fold) == set(range(N_FOLDS))
        assert roc_auc_score(questions.correct, one.probability) < 0.65


def test_the_seed_decides() -> None:
    questions = random_questions(seed=2, n_per_relation=20)
    subject = np.arange(80).astype(str)
    first, again, other = (next(cross_fit(questions, subject, seed)) for seed in (1, 1, 2))
    assert first.probability.tolist() == again.probability.tolist()
    assert first.fold.tolist() == again.fold.tolist() != other.fold.tolist()


@pytest.mark.parametrize(
    ("n", "n_subjects", "n_correct", "reason"),
    [
        (0, 0, 0, "too few questions"),
        (49, 49, 20, "too few questions"),
        (60, 14, 30, "too few subjects"),
        (60, 60, 2, "too few answers of one outcome"),
        (60, 60, 60, "too few answers of one outcome"),
    ],
)
def test_too_little_to_learn_from_is_told(n: int, n_subjects: int, n_correct: int, reason: str) -> None:
    rng = np.random.default_rng(3)
    questions = Questions(np.full(n, "father"), np.arange(n) < n_correct, rng.normal(size=(n, 3)))
    subject = (np.arange(n) % max(n_subjects, 1)).astype(str)
    for one in fitted(questions, subject).values():
        assert (one.probability, one.fold, one.undefined) == (None, None, reason)
