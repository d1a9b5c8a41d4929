"""How likely is an answer right, without a reference answer? The regression of PopQA-TP and probabilities by question."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.progress import Progress
from longtail.statistics.prediction_design import (
    ABLATIONS,
    LEAST_CORRECTNESS,
    Ablation,
    Questions,
    Values,
)
from longtail.statistics.prediction_held_out import UNSCORED, fit_all, score, training_questions
from longtail.statistics.prediction_probabilities import CrossFitted, cross_fit
from longtail.statistics.prediction_tables import by_subject, coefficients, likelihood, terms
from longtail.statistics.resampling import seed_of
from longtail.statistics.statistic import Statistic

ALL_RELATIONS, ABOVE_TENTH = SETTINGS = ("all_relations", "relations_above_0.1")
ALL_ROWS, HELD_OUT = FITS = ("all_rows", "held_out")
TABLES = ("prediction_models", "prediction_terms", "prediction_coefficients", "question_predictions")
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
_QUERY = f"select {', '.join((*_KEY, *_COLUMNS))} from intermediate.int_prediction_rows order by all"  # noqa: S608
_QUESTIONS = (
    "select dataset, list(distinct question_id order by question_id) as question_ids"
    " from intermediate.int_prediction_rows group by all order by all"
)

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


def predict_correctness(tables: Sequence[pa.Table], seed: int, log: logging.Logger) -> dict[str, list[Row]]:
    """The rows of all lake tables of performance prediction.

    `tables`: int_prediction_rows, and the questions of each dataset, also those of models that are left out.
    """
    found: dict[str, list[Row]] = {table: [] for table in TABLES}
    training = {
        row["dataset"]: training_questions(row["question_ids"], seed) for row in tables[1].to_pylist()
    }
    groups = list(_groups(tables[0], training))
    what = "performance prediction: models and prompts"
    with Progress(log, what, len(groups)) as progress:
        for group in groups:
            for setting, ablation in itertools.product(SETTINGS, ABLATIONS):
                _regress(group, setting, ablation, found)
            found["question_predictions"] += _predictions(group, seed)
            progress.add(1)
    return found


def _groups(table: pa.Table, training: Mapping[str, set[str]]) -> Iterator[Group]:
    columns = {name: np.array(table[name].to_pylist(), dtype=object) for name in table.column_names}
    keys = list(zip(*(columns[name] for name in _KEY), strict=True))
    for key, places in itertools.groupby(range(len(keys)), key=keys.__getitem__):
        at = list(places)
        rows = {name: columns[name][at] for name in _COLUMNS}
        yield _group(dict(zip(_KEY, key, strict=True)), rows, training[key[0]])


def _group(key: Row, rows: Mapping[str, Values], training: set[str]) -> Group:
    is_whole = np.array([reason is None for reason in rows["undefined"]], dtype=bool)
    whole = {name: values[is_whole] for name, values in rows.items()}
    predictors = np.column_stack([
        np.log(whole["subject_popularity"].astype(float)), whole["scons"].astype(float), whole["cert"].astype(float)
    ])  # fmt: skip
    questions = Questions(whole["relation"].astype(str), whole["is_correct"].astype(bool), predictors)
    is_hard = np.isin(questions.relation, list(hard_relations(rows["relation"], rows["is_correct"])))
    is_training = np.array([one in training for one in whole["question_id"]], dtype=bool)
    return Group(key, rows, is_whole, questions, is_training, is_hard)


def hard_relations(relation: Values, is_correct: Values) -> set[str]:
    """Relations with correctness up to 0.1, over all their answers, also of questions without some predictor."""
    answered = [(name, right) for name, right in zip(relation, is_correct, strict=True) if right is not None]
    n, n_correct = Counter(name for name, _ in answered), Counter(name for name, right in answered if right)
    return {name for name in n if name is not None and n_correct[name] <= LEAST_CORRECTNESS * n[name]}


def _regress(group: Group, setting: str, ablation: Ablation, found: dict[str, list[Row]]) -> None:
    """Append the rows of one model in one setting: both fits, and the tables of the one on all rows."""
    key = {**group.key, "setting": setting, "predictors": ablation.name}
    is_in = ~group.is_hard if setting == ABOVE_TENTH else np.full(len(group.is_hard), True)
    reasons = Counter(group.rows["undefined"])
    counts = {
        "n_questions": len(group.is_whole), **{name: reasons[reason] for reason, name in LEFT_OUT.items()},
        "n_hard_relations": int((~is_in).sum()),
    }  # fmt: skip
    fits = fit_all(group.questions.where(is_in), ablation)
    found["prediction_models"].append(
        {**key, "fit": ALL_ROWS, **counts, **likelihood(fits, ablation), **UNSCORED}
    )
    if fits:
        clusters = by_subject(group.questions.where(is_in), group.subject[is_in], fits, ablation)
        found["prediction_terms"] += ({**key, **row} for row in terms(fits, ablation, clusters))
        found["prediction_coefficients"] += ({**key, **row} for row in coefficients(fits, ablation, clusters))
    is_test = is_in & ~group.is_training
    training, test = (group.questions.where(rows) for rows in (is_in & group.is_training, is_test))
    fits = fit_all(training, ablation)
    scored = score(training, fits, test, ablation, group.subject[is_test])
    found["prediction_models"].append(
        {**key, "fit": HELD_OUT, **counts, **likelihood(fits, ablation), **scored}
    )


def _predictions(group: Group, seed: int) -> Iterator[Row]:
    """One row per question, estimator and signal; without a probability where a predictor is missing."""
    for one in cross_fit(group.questions, group.subject, seed_of(seed, group.key.values()) % 2**32):
        yield from _rows_of(group, one)


def _rows_of(group: Group, one: CrossFitted) -> Iterator[Row]:
    fold, probability = np.full((2, len(group.is_whole)), None, dtype=object)
    undefined = group.rows["undefined"].copy()
    fold[group.is_whole], probability[group.is_whole] = one.fold, one.probability
    undefined[group.is_whole] = one.undefined
    for at, question_id in enumerate(group.rows["question_id"]):
        yield {
            **group.key, "question_id": question_id, "estimator": one.estimator, "signal": one.signal,
            "fold": fold[at], "probability": probability[at], "undefined": undefined[at],
        }  # fmt: skip


PREDICTION = Statistic(
    "prediction",
    tables=TABLES,
    models=("int_prediction_rows",),
    queries=(_QUERY, _QUESTIONS),
    compute=predict_correctness,
)
