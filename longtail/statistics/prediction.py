"""How likely is an answer right, without a reference answer? The regression of PopQA-TP and probabilities by question.

Probabilities come from models that did not see the question's subject: the questions are dealt into five folds, all
questions of one subject into one. Each fold is predicted by estimators that are fitted on the other four. These are dealt
again, into three parts by subject: each part calibrates (Platt's sigmoid) an estimator that is fitted on the other two,
and the prediction is the mean of the three.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.prediction_fit import (
    ABLATIONS,
    CERTAINTY,
    CONSISTENCY,
    LEAST_CORRECTNESS,
    POPULARITY,
    PREDICTORS,
    UNSCORED,
    PredictorSet,
    Questions,
    Values,
    fit_all,
    score,
    standardise,
    training_questions,
)
from longtail.statistics.prediction_tables import by_subject, coefficients, likelihood, terms
from longtail.statistics.resampling import seed_of
from longtail.statistics.results import compute_parts, digest

ALL_RELATIONS, ABOVE_TENTH = SETTINGS = ("all_relations", "relations_above_0.1")
ALL_ROWS, HELD_OUT = FITS = ("all_rows", "held_out")
RESULTS = MODELS, TERMS, COEFFICIENTS = ("models", "terms", "coefficients")
"""Kinds of rows of a regression: itself, its terms, its coefficients."""
LEFT_OUT = {
    "no answer": "n_no_answer",
    "no relation": "n_no_relation",
    "no popularity": "n_no_popularity",
    "popularity 0": "n_zero_popularity",
    "no consistency": "n_no_consistency",
    "no certainty": "n_no_certainty",
}
"""Why int_prediction_rows leaves a question out, and the column that counts it."""
_KEY = ("dataset", "prompt", "model")
_COLUMNS = (
    "question_id",
    "relation",
    "subject",
    "is_correct",
    "subject_popularity",
    "scons",
    "cert",
    "undefined",
)
QUERIES = (
    f"select {', '.join((*_KEY, *_COLUMNS))} from int_prediction_rows order by all",  # noqa: S608
    "select dataset, list(distinct question_id order by question_id) as question_ids"
    " from int_prediction_rows group by all order by all",
)
_TEXTS = (
    *("result", *_KEY, "setting", "predictors", "fit", "term", "coding", "relation", "base_relation", "code"),
    *("undefined", "score_undefined"),
)
_COUNTS = (
    "n_questions", *LEFT_OUT.values(), "n_hard_relations", "n_fitted", "n_correct", "n_relations", "n_separated",
    "n_separated_questions", "n_undetermined", "n_coefficients", "n_scored", "n_scored_subjects", "n_scored_unseen",
    "n_hits", "n_hits_baseline", "df", "n_undefined", "n_subjects",
)  # fmt: skip
_FLOATS = (
    "log_likelihood", "log_likelihood_null", "mcfadden_r2", "aic", "score_deff", "wald_chi2", "p_value",
    "clustered_wald_chi2", "clustered_p_value", "beta", "standard_error", "ci_low", "ci_high", "exp_beta", "exp_ci_low",
    "exp_ci_high", "z", "clustered_standard_error",
)  # fmt: skip
REGRESSIONS = pa.schema([
    *((name, pa.string()) for name in _TEXTS),
    *((name, pa.bool_()) for name in ("is_base", "is_separated")),
    *((name, pa.int64()) for name in _COUNTS),
    *((name, pa.float64()) for name in _FLOATS),
])  # fmt: skip
"""Columns of all kinds of rows; those that a row's kind has not are null."""
PREDICTIONS = pa.schema([
    *((name, pa.string()) for name in (*_KEY, "question_id", "estimator", "signal")),
    ("fold", pa.int32()),
    ("probability", pa.float64()),
    ("undefined", pa.string()),
])  # fmt: skip

Row = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """The questions of a dataset, prompt and model. `rows`: the columns of all; the rest (n): those with all predictors.

    `is_training`, `is_hard` (n): in the fitted part of the held-out fit; of a relation with correctness up to 0.1.
    """

    key: Row
    rows: Mapping[str, Values]
    is_whole: Values
    questions: Questions
    is_training: Values
    is_hard: Values

    @property
    def subject(self) -> Values:
        return np.asarray(self.rows["subject"][self.is_whole].astype(str))


def regress_correctness(
    rows: pa.Table, questions: pa.Table, seed: int, last: pa.Table | None = None
) -> pa.Table:
    """The rows of int_prediction_regressions. `QUERIES` read the rows, and the questions of each dataset, also those of
    models that are left out; `last`: as in `compute_parts`."""

    def regress(part: tuple[pa.Table, set[str]]) -> Iterator[Row]:
        group = _group(*part)
        for setting, ablation in itertools.product(SETTINGS, ABLATIONS):
            yield from _regress(group, setting, ablation)

    return compute_parts(regress, _parts(rows, questions, seed), REGRESSIONS, last)


def predict_questions(
    rows: pa.Table, questions: pa.Table, seed: int, last: pa.Table | None = None
) -> pa.Table:
    """The rows of int_question_predictions; arguments as of `regress_correctness`."""

    def predict(part: tuple[pa.Table, set[str]]) -> Iterator[Row]:
        return _predictions(_group(*part), seed)

    return compute_parts(predict, _parts(rows, questions, seed), PREDICTIONS, last)


def _parts(
    table: pa.Table, questions: pa.Table, seed: int
) -> Sequence[tuple[str, tuple[pa.Table, set[str]]]]:
    """The rows of each dataset, prompt and model, with the training questions of the dataset."""
    training = {
        row["dataset"]: training_questions(row["question_ids"], seed) for row in questions.to_pylist()
    }
    hashes = {dataset: digest(seed, sorted(ids)) for dataset, ids in training.items()}
    keys = list(zip(*(table[name].to_pylist() for name in _KEY), strict=True))
    parts = []
    for (dataset, *_), places in itertools.groupby(range(len(keys)), key=keys.__getitem__):
        first, *others = places
        rows = table.slice(first, len(others) + 1)
        parts.append((digest(hashes[dataset], rows), (rows, training[dataset])))
    return parts


def _group(table: pa.Table, training: set[str]) -> Group:
    rows = {name: np.array(table[name].to_pylist(), dtype=object) for name in _COLUMNS}
    key = {name: table[name][0].as_py() for name in _KEY}
    is_whole = np.array([reason is None for reason in rows["undefined"]], dtype=bool)
    whole = {name: values[is_whole] for name, values in rows.items()}
    predictors = np.column_stack([
        np.log(whole["subject_popularity"].astype(float)), whole["scons"].astype(float), whole["cert"].astype(float)
    ])  # fmt: skip
    questions = Questions(whole["relation"].astype(str), whole["is_correct"].astype(bool), predictors)
    is_hard = np.isin(questions.relation, list(hard_relations(rows["relation"], rows["is_correct"])))
    is_training = np.array([question_id in training for question_id in whole["question_id"]], dtype=bool)
    return Group(key, rows, is_whole, questions, is_training, is_hard)


def hard_relations(relation: Values, is_correct: Values) -> set[str]:
    """Relations with correctness up to 0.1, over all their answers, also of questions without some predictor."""
    answered = [(name, right) for name, right in zip(relation, is_correct, strict=True) if right is not None]
    n, n_correct = Counter(name for name, _ in answered), Counter(name for name, right in answered if right)
    return {name for name in n if name is not None and n_correct[name] <= LEAST_CORRECTNESS * n[name]}


def _regress(group: Group, setting: str, ablation: PredictorSet) -> Iterator[Row]:
    """The rows of one model in one setting: both fits, and the terms and coefficients of the one on all rows."""
    key = {**group.key, "setting": setting, "predictors": ablation.name}
    is_in = ~group.is_hard if setting == ABOVE_TENTH else np.full(len(group.is_hard), True)
    reasons = Counter(group.rows["undefined"])
    counts = {
        "n_questions": len(group.is_whole), **{name: reasons[reason] for reason, name in LEFT_OUT.items()},
        "n_hard_relations": int((~is_in).sum()),
    }  # fmt: skip
    fits = fit_all(group.questions.where(is_in), ablation)
    model = {"result": MODELS, **key, **counts}
    yield {**model, "fit": ALL_ROWS, **likelihood(fits, ablation), **UNSCORED}
    if fits:
        clusters = by_subject(group.questions.where(is_in), group.subject[is_in], fits, ablation)
        for result, rows in ((TERMS, terms), (COEFFICIENTS, coefficients)):
            yield from ({"result": result, **key, **row} for row in rows(fits, ablation, clusters))
    is_test = is_in & ~group.is_training
    training, test = (group.questions.where(rows) for rows in (is_in & group.is_training, is_test))
    fits = fit_all(training, ablation)
    scored = score(training, fits, test, ablation, group.subject[is_test])
    yield {**model, "fit": HELD_OUT, **likelihood(fits, ablation), **scored}


def _predictions(group: Group, seed: int) -> Iterator[Row]:
    """One row per question, estimator and signal; without a probability where a predictor is missing."""
    for predicted in cross_fit(group.questions, group.subject, seed_of(seed, group.key.values()) % 2**32):
        fold, probability = np.full((2, len(group.is_whole)), None, dtype=object)
        undefined = group.rows["undefined"].copy()
        fold[group.is_whole], probability[group.is_whole] = predicted.fold, predicted.probability
        undefined[group.is_whole] = predicted.undefined
        for at, question_id in enumerate(group.rows["question_id"]):
            yield {
                **group.key, "question_id": question_id, "estimator": predicted.estimator, "signal": predicted.signal,
                "fold": fold[at], "probability": probability[at], "undefined": undefined[at],
            }  # fmt: skip


N_FOLDS, N_PARTS = 5, 3
LEAST_QUESTIONS = 50
_MOST_CATEGORIES = 255
"""Trees take at most that many relations as categories; above it they see their numbers."""


SIGNALS = (
    PredictorSet("popularity_relation", (POPULARITY,), True),
    PredictorSet("consistency", (CONSISTENCY, CERTAINTY), False),
    PredictorSet("all", PREDICTORS, True),
)
"""What a prediction knows about a question (SPEC §7)."""
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
    deals = [
        (training, test, _split_subjects(subject[training], N_PARTS, seed))
        for training, test in _split_subjects(subject, N_FOLDS, seed)
    ]
    fitted = (correct[training][rows] for training, _, parts in deals for part in parts for rows in part)
    if any(rows.all() or not rows.any() for rows in fitted):
        return "too few answers of one outcome"
    return deals


def _split_subjects(subject: Values, n: int, seed: int) -> Parts:
    from sklearn.model_selection import GroupKFold

    return list(GroupKFold(n, shuffle=True, random_state=seed).split(subject, groups=subject))


def _predict(
    questions: Questions, signal: PredictorSet, estimator: str, training: Values, test: Values, parts: Parts, seed: int
) -> Values:  # fmt: skip
    from sklearn.calibration import CalibratedClassifierCV
    from threadpoolctl import threadpool_limits

    features = _interactions if estimator == LOGISTIC else _columns
    values = features(questions, signal, training)
    categories = len(set(questions.relation)) if signal.by_relation else 0
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


def _interactions(questions: Questions, signal: PredictorSet, training: Values) -> Values:
    """Standardised predictors; with relations, also each relation's own intercept and slopes beside the common ones."""
    columns = [PREDICTORS.index(name) for name in signal.numeric]
    common = standardise(questions.predictors, questions.predictors[training])[:, columns]
    if not signal.by_relation:
        return common
    is_of = (questions.relation[:, None] == np.unique(questions.relation)).astype(float)
    return np.column_stack([common, is_of, *(is_of * common[:, [at]] for at in range(len(columns)))])


def _columns(questions: Questions, signal: PredictorSet, _: Values) -> Values:
    """The number of the relation, where the signal has it, and the predictors as they are."""
    columns = questions.predictors[:, [PREDICTORS.index(name) for name in signal.numeric]]
    if not signal.by_relation:
        return np.asarray(columns)
    return np.column_stack([np.unique(questions.relation, return_inverse=True)[1], columns])
