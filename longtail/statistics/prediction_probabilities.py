"""Probabilities that an answer is right, for every question by models that did not see its subject.

The questions are dealt into five folds, all questions of one subject into one. Each fold is predicted by estimators that
are fitted on the other four. These are dealt again, into three parts by subject: each part calibrates (Platt's sigmoid)
an estimator that is fitted on the other two, and the prediction is the mean of the three.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.statistics.prediction_fit import (
    CERTAINTY,
    CONSISTENCY,
    POPULARITY,
    PREDICTORS,
    Questions,
    Values,
    scale_of,
)

N_FOLDS, N_PARTS = 5, 3
LEAST_QUESTIONS = 50
_MOST_CATEGORIES = 255
"""Trees take at most that many relations as categories; above it they see their numbers."""


@dataclass(frozen=True)
class Signal:
    """What a prediction knows about a question (SPEC §7)."""

    name: str
    numeric: tuple[str, ...]
    has_relation: bool


SIGNALS = (
    Signal("popularity_relation", (POPULARITY,), True),
    Signal("consistency", (CONSISTENCY, CERTAINTY), False),
    Signal("all", PREDICTORS, True),
)
LOGISTIC, BOOSTING = "logistic", "gradient_boosting"
ESTIMATORS = (LOGISTIC, BOOSTING)

Parts = list[tuple[Values, Values]]
"""Row numbers of the training rows and of the rest, for each part."""


@dataclass(frozen=True)
class CrossFitted:
    """One estimator on one signal: `fold` and `probability` by question (n), or the reason why there are none."""

    estimator: str
    signal: str
    fold: Values | None = None
    probability: Values | None = None
    undefined: str | None = None


def cross_fit(questions: Questions, subject: Values, seed: int) -> Iterator[CrossFitted]:
    """Every estimator on every signal. `subject` (n): questions with the same one stay together."""
    deals = _deals(questions.correct, subject, seed)
    for signal in SIGNALS:
        for estimator in ESTIMATORS:
            if isinstance(deals, str):
                yield CrossFitted(estimator, signal.name, undefined=deals)
                continue
            fold, probability = np.zeros(len(subject), dtype=int), np.zeros(len(subject))
            for number, (training, test, parts) in enumerate(deals):
                fold[test] = number
                probability[test] = _predict(questions, signal, estimator, training, test, parts, seed)
            yield CrossFitted(estimator, signal.name, fold, probability)


def _deals(correct: Values, subject: Values, seed: int) -> list[tuple[Values, Values, Parts]] | str:
    """For each fold its training rows, its own rows, and the parts of the former; or the reason why there are none."""
    if len(correct) < LEAST_QUESTIONS:
        return "too few questions"
    if len(set(subject)) < N_FOLDS * N_PARTS:
        return "too few subjects"
    found = [
        (training, test, _parts(subject[training], N_PARTS, seed))
        for training, test in _parts(subject, N_FOLDS, seed)
    ]
    fitted = (correct[training][rows] for training, _, parts in found for part in parts for rows in part)
    if any(rows.all() or not rows.any() for rows in fitted):
        return "too few answers of one outcome"
    return found


def _parts(subject: Values, n: int, seed: int) -> Parts:
    from sklearn.model_selection import GroupKFold

    return list(GroupKFold(n, shuffle=True, random_state=seed).split(subject, groups=subject))


def _predict(
    questions: Questions,
    signal: Signal,
    estimator: str,
    training: Values,
    test: Values,
    parts: Parts,
    seed: int,
) -> Values:
    from sklearn.calibration import CalibratedClassifierCV
    from threadpoolctl import threadpool_limits

    features = _interactions if estimator == LOGISTIC else _columns
    values = features(questions, signal, training)
    categories = len(set(questions.relation)) if signal.has_relation else 0
    model = CalibratedClassifierCV(_estimator(estimator, categories, seed), cv=parts)
    with threadpool_limits(1):  # of the libraries that are loaded by now; a fit is too small to be divided
        model.fit(values[training], questions.correct[training])
        return np.asarray(model.predict_proba(values[test])[:, 1])


def _estimator(name: str, n_categories: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if name == LOGISTIC:
        return LogisticRegression(max_iter=1_000)
    categorical = [0] if 0 < n_categories <= _MOST_CATEGORIES else None
    return HistGradientBoostingClassifier(
        max_iter=60,
        max_leaf_nodes=8,
        categorical_features=categorical,
        early_stopping=False,
        random_state=seed,
    )


def _interactions(questions: Questions, signal: Signal, training: Values) -> Values:
    """Standardised predictors; with relations, also each relation's own intercept and slopes beside the common ones."""
    columns = [PREDICTORS.index(name) for name in signal.numeric]
    common = scale_of(questions.predictors[training]).standardised(questions.predictors)[:, columns]
    if not signal.has_relation:
        return common
    is_of = (questions.relation[:, None] == np.unique(questions.relation)).astype(float)
    return np.column_stack([common, is_of, *(is_of * common[:, [at]] for at in range(len(columns)))])


def _columns(questions: Questions, signal: Signal, _: Values) -> Values:
    """The number of the relation, where the signal has it, and the predictors as they are."""
    columns = questions.predictors[:, [PREDICTORS.index(name) for name in signal.numeric]]
    if not signal.has_relation:
        return np.asarray(columns)
    return np.column_stack([np.unique(questions.relation, return_inverse=True)[1], columns])
