"""Lake tables of retrieval by predicted correctness (SPEC §7): what each signal decides, gains and costs."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, MODEL, PROMPT, Column, Table, column
from dagster_project.core.tables.statistics import (
    N_DECIDING,
    N_QUESTIONS,
    N_RESAMPLES,
    NO_ERROR,
    PARAMETRIC_METHOD,
    RETRIEVAL_METHOD,
    SCOPE,
    STANDARD_ERROR,
)


def _number(name: str, meaning: str) -> Column:
    return column(name, pa.float64(), meaning, null=True)


def _count(name: str, meaning: str) -> Column:
    return column(name, pa.int64(), meaning)


_POLICY = (
    DATASET,
    PROMPT,
    MODEL,
    PARAMETRIC_METHOD,
    RETRIEVAL_METHOD,
    column(
        "signal",
        pa.string(),
        "what decides: popularity (its value), or the predicted probability that the parametric answer is right, from"
        " popularity_relation (log popularity, relation), consistency (scons, cert), or all of these",
    ),
    SCOPE,
)
_OF_MIX = (
    "per 1,000 questions, of the answers that the policy chooses; null unless known for every test question"
)
_OF_SIGNAL = (
    "per 1,000 questions, of the paraphrases and samples that the signal needs beside the answer; 0 if it needs none;"
    " null unless known for every test question"
)

SIGNAL_TABLES = (
    Table(
        "adaptive_signals",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope).",
        (
            *_POLICY,
            N_QUESTIONS,
            _count("n_compared", "questions of n_questions on which all policies of the pair are compared"),
            _count("n_zero_popularity", "questions left out because popularity is 0, which has no logarithm"),
            _count(
                "n_no_measures",
                "questions with popularity above 0 without scons or cert; they are left out if at least 50 have both",
            ),
            _count(
                "n_one_outcome",
                "relations of n_compared whose parametric answers are all right or all wrong; the penalty of the"
                " regression keeps their coefficients finite",
            ),
            _count("n_splits", "splits that have test questions; 0 if the signal cannot decide"),
            _number("accuracy", "held-out accuracy of retrieving below the threshold, mean over the splits"),
            _number("accuracy_always", "accuracy of always retrieving, on the same test questions"),
            _number("accuracy_never", "accuracy of never retrieving, on the same test questions"),
            _number(
                "accuracy_fixed", "accuracy of whichever of these two was better on the training questions"
            ),
            _number("share_retrieved", "share of the test questions below their threshold"),
            _number("device_seconds_per_1000", f"seconds of the local devices {_OF_MIX}"),
            _number("cost_usd_per_1000", f"US dollars {_OF_MIX}"),
            _number("signal_tokens_per_1000", f"prompt and new tokens {_OF_SIGNAL}"),
            _number("signal_device_seconds_per_1000", f"seconds of the local devices {_OF_SIGNAL}"),
            _number("signal_cost_usd_per_1000", f"US dollars {_OF_SIGNAL}"),
            column(
                "undefined", pa.string(), "reason why the signal cannot decide; null if it can", null=True
            ),
        ),
    ),
    Table(
        "adaptive_signal_gains",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope, baseline).",
        (
            *_POLICY,
            column(
                "baseline",
                pa.string(),
                "policy that is compared with on the same questions: always or never retrieving, fixed (whichever of"
                " them was better on the training questions), popularity_all or popularity_per_relation (thresholds on"
                " popularity)",
            ),
            N_QUESTIONS,
            N_RESAMPLES,
            column(
                "gain", pa.float64(), "held-out accuracy minus that of the baseline, mean over the splits"
            ),
            _number("variance_of_splits", "part of the gain's variance from the drawing of the splits"),
            STANDARD_ERROR,
            N_DECIDING,
            column(
                "share_departing",
                pa.float64(),
                "share of the held-out questions that only one method answers right for which the two policies decide"
                " differently",
            ),
            NO_ERROR,
        ),
    ),
)
