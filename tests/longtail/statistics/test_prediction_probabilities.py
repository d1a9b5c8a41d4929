"""Probabilities by question: no subject is predicted by a model that saw it, and they are calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from longtail.statistics.prediction import (
    ESTIMATORS,
    N_FOLDS,
    SIGNALS,
    CrossFitted,
    cross_fit,
)
from longtail.statistics.prediction_fit import Questions
from tests.longtail.statistics.predicted_questions import planted_questions, random_questions

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
