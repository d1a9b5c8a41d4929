"""How well the regression predicts questions that it was not fitted on (PopQA-TP, Tables 5 and 6; SPEC §7)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from longtail.scoring.intervals import design_effect
from longtail.statistics.prediction_design import (
    Ablation,
    Block,
    Questions,
    Values,
    blocks,
    design_matrix,
    scale_of,
)
from longtail.statistics.prediction_fit import Fit, fit, probabilities, ridge

TRAINING_SHARE = 0.8
_CUT = 0.5
UNSCORED = dict.fromkeys(
    (
        "n_scored",
        "n_scored_subjects",
        "score_deff",
        "n_scored_unseen",
        "n_hits",
        "n_hits_baseline",
        "score_undefined",
    )
)
"""The score of a fit on all rows."""


def training_questions(question_ids: Iterable[str], seed: int) -> set[str]:
    """Four fifths of a dataset's questions: the same ones for every model and prompt.

    They are the first ones by the md5 of `seed:question_id`, in hexadecimal digits.
    """
    order = sorted(set(question_ids), key=lambda one: hashlib.md5(f"{seed}:{one}".encode()).hexdigest())  # noqa: S324
    return set(order[: round(TRAINING_SHARE * len(order))])


def fit_all(questions: Questions, ablation: Ablation) -> list[Fit]:
    """The fits of a model on all its rows, standardised by them; none without rows."""
    if not len(questions.correct):
        return []
    return [fit(block) for block in blocks(questions, ablation, scale_of(questions.predictors))]


def score(
    training: Questions, fits: list[Fit], test: Questions, ablation: Ablation, subject: Values
) -> dict[str, Any]:
    """How often a model that was fitted on `training` predicts `test` rightly, beside the outcome of most of `training`.

    `fits`: `fit_all(training, ablation)`; `subject`: of each question of `test`. A question is predicted to be answered
    right if its probability is above 0.5.
    """
    n = len(test.correct)
    if not n or not fits:
        undefined = "no questions to score" if fits else "no questions to fit"
        return {**UNSCORED, "n_scored": n, "n_scored_unseen": 0, "score_undefined": undefined}
    is_hit = (predict(training, fits, test, ablation) > _CUT) == test.correct
    return {
        "n_scored": n, "n_scored_subjects": len(np.unique(subject)),
        "score_deff": design_effect(is_hit.astype(float), subject),
        "n_scored_unseen": int((~np.isin(test.relation, training.relation)).sum()),
        "n_hits": int(is_hit.sum()),
        "n_hits_baseline": int((test.correct == (training.correct.mean() > _CUT)).sum()), "score_undefined": None,
    }  # fmt: skip


def predict(training: Questions, fits: list[Fit], test: Questions, ablation: Ablation) -> Values:
    """The probability (n) that each question of `test` is answered right, by a model with `fits` on `training`.

    A relation without a finite fit gets a ridge fit around the mean of the training rows. A relation that the training
    rows lack gets the model without relations.
    """
    scale = scale_of(training.predictors)
    design = design_matrix(test, ablation, scale)
    pooled = dataclasses.replace(ablation, by_relation=False)
    (of_all,) = fit_all(training, pooled) if ablation.by_relation else fits
    (all_rows,) = blocks(training, pooled, scale)
    found = probabilities(design, _solution(of_all, all_rows, training))
    if ablation.by_relation:
        for one, block in zip(fits, blocks(training, ablation, scale), strict=True):
            rows = test.relation == one.relation
            found[rows] = probabilities(design[rows], _solution(one, block, training))
    return found


def _solution(one: Fit, block: Block, training: Questions) -> Values:
    if one.solution is not None:
        return one.solution
    share = (training.correct.sum() + 0.5) / (len(training.correct) + 1)  # never 0 or 1
    return ridge(block.design, block.correct.astype(float), float(np.log(share / (1 - share))))
