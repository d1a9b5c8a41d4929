"""Lake tables of bootstraps, which numpy computes from models of the warehouse's first pass."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, MODEL, PROMPT, Table, column

STATISTICS_TABLES = (
    Table(
        "adaptive_gains",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, search, threshold_scope).",
        (
            DATASET,
            PROMPT,
            MODEL,
            column("parametric_method", pa.string(), "method used at and above the threshold"),
            column("retrieval_method", pa.string(), "method used below the threshold"),
            column("search", pa.string(), "exact or binned10 (SPEC §6)"),
            column("threshold_scope", pa.string(), "per_relation or all"),
            column("n_questions", pa.int64(), "questions with popularity and both answers"),
            column("n_resamples", pa.int32(), "bootstrap resamples of questions"),
            column(
                "n_deciding",
                pa.float64(),
                "so many equally large gains and losses of single questions would vary as much as theirs do",
            ),
            column(
                "share_departing",
                pa.float64(),
                "of the questions that one method alone has right, share that adaptive retrieval decides otherwise "
                "than the better fixed method, held out",
            ),
            column("gain_standard_error", pa.float64(), "standard error of the held-out gain", null=True),
            column("undefined", pa.string(), "why there is no standard error", null=True),
        ),
    ),
    Table(
        "method_comparisons",
        "One row per (dataset, prompt, comparison, model_a, method_a, model_b, method_b) with questions in common.",
        (
            DATASET,
            PROMPT,
            column("comparison", pa.string(), "methods (of one model) or models (by one method)"),
            column("model_a", pa.string(), "model of the first side"),
            column("method_a", pa.string(), "method of the first side"),
            column("model_b", pa.string(), "model of the second side"),
            column("method_b", pa.string(), "method of the second side"),
            column("n", pa.int64(), "questions that both sides answered"),
            column("n_a_only", pa.int64(), "questions that the first side alone has right"),
            column("n_b_only", pa.int64(), "questions that the second side alone has right"),
            column(
                "p_value", pa.float64(), "exact two-sided McNemar test; 1 where no question is discordant"
            ),
            column("n_resamples", pa.int32(), "bootstrap resamples of questions"),
            column(
                "difference_low",
                pa.float64(),
                "2.5th percentile over resamples of accuracy of the first side minus that of the second",
            ),
            column("difference_high", pa.float64(), "its 97.5th percentile"),
        ),
    ),
)
