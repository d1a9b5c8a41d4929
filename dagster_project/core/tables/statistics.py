"""Lake tables of bootstraps: numpy computes them from models of the warehouse's first pass."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import (
    DATASET,
    GROUNDING_PROMPT,
    METHOD,
    MODEL,
    PROMPT,
    Column,
    Table,
    column,
)


def _ends(measure: str, meaning: str) -> tuple[Column, Column]:
    """The two columns of a measure's percentile interval."""
    low, high = (
        column(
            f"{measure}_{end}", pa.float64(), f"{meaning}: {place} percentile over the resamples", null=True
        )
        for end, place in (("low", "2.5th"), ("high", "97.5th"))
    )
    return low, high


PARAMETRIC_METHOD = column(
    "parametric_method",
    pa.string(),
    "method that answers from the model's memory (closed_book, genread): used at and above the threshold",
)
RETRIEVAL_METHOD = column(
    "retrieval_method", pa.string(), "method that reads a passage: used below the threshold"
)
SCOPE = column(
    "threshold_scope",
    pa.string(),
    "per_relation = each relation has its own threshold; all = one threshold for all relations",
)
N_QUESTIONS = column("n_questions", pa.int64(), "questions with popularity and both answers")
N_RESAMPLES = column("n_resamples", pa.int32(), "bootstrap resamples of questions")
N_DECIDING = column(
    "n_deciding",
    pa.float64(),
    "effective number of deciding questions: this many equally large gains and losses would vary as much"
    " as the real ones",
)
STANDARD_ERROR = column("gain_standard_error", pa.float64(), "standard error of the held-out gain", null=True)
NO_ERROR = column("undefined", pa.string(), "reason why there is no standard error", null=True)


STATISTICS_TABLES = (
    Table(
        "adaptive_gains",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, search, threshold_scope).",
        (
            DATASET,
            PROMPT,
            MODEL,
            PARAMETRIC_METHOD,
            RETRIEVAL_METHOD,
            column(
                "search",
                pa.string(),
                "how thresholds are searched: exact (every distinct popularity) or binned10 (the edges of ten bins of"
                " equal width in log popularity; SPEC §6)",
            ),
            SCOPE,
            N_QUESTIONS,
            N_RESAMPLES,
            N_DECIDING,
            column(
                "share_departing",
                pa.float64(),
                "share of the questions that only one method answers right for which adaptive retrieval, held out,"
                " chooses otherwise than the better fixed method",
            ),
            STANDARD_ERROR,
            NO_ERROR,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "method_comparisons",
        "One row per (dataset, prompt, comparison, model_a, method_a, model_b, method_b) with questions in common.",
        (
            DATASET,
            PROMPT,
            column(
                "comparison",
                pa.string(),
                "methods = two methods with one model; models = two models with one method",
            ),
            column("model_a", pa.string(), "model of the first side"),
            column("method_a", pa.string(), "method of the first side"),
            column("model_b", pa.string(), "model of the second side"),
            column("method_b", pa.string(), "method of the second side"),
            column("n", pa.int64(), "questions that both sides answered"),
            column("n_a_only", pa.int64(), "questions that only the first side answers right"),
            column("n_b_only", pa.int64(), "questions that only the second side answers right"),
            column(
                "p_value",
                pa.float64(),
                "exact two-sided McNemar test; 1 if no question is right on one side only",
            ),
            N_RESAMPLES,
            column(
                "difference_low",
                pa.float64(),
                "accuracy of the first side minus that of the second: 2.5th percentile over the resamples",
            ),
            column(
                "difference_high",
                pa.float64(),
                "accuracy of the first side minus that of the second: 97.5th percentile over the resamples",
            ),
        ),
    ),
    Table(
        "factual_consistency_intervals",
        "One row per (dataset, prompt, model, method, relation, bin, measure); `all` is the mean over relations, or a"
        " bin's facts.",
        (
            DATASET,
            PROMPT,
            MODEL,
            METHOD,
            column("relation", pa.string(), "relation of the facts, or all"),
            column("bin", pa.int32(), "bin of popularity over all relations; null = all facts", null=True),
            column("measure", pa.string(), "name of the measure, as in fct_factual_consistency"),
            column("n_resamples", pa.int32(), "bootstrap resamples of facts"),
            *_ends("value", "the measure"),
            column("undefined", pa.string(), "reason why both ends are null", null=True),
        ),
    ),
    Table(
        "grounding_intervals",
        "One row per (dataset, model, method, grounding_prompt, compared_with, measure): two texts about each question.",
        (
            DATASET,
            MODEL,
            METHOD,
            GROUNDING_PROMPT,
            column(
                "compared_with",
                pa.string(),
                "null_prompt: the text under the null prompt, by the same method; no_passage: the text from memory, under"
                " the same grounding prompt",
            ),
            column(
                "measure",
                pa.string(),
                "quip_ratio, quip_difference: of the means; same_length_ratio, same_length_difference: of the means over"
                " as many 25-grams of both texts, from the start, as the shorter one has; score_difference: of the end"
                " task's score",
            ),
            column("n_paired", pa.int64(), "questions for which both texts have the score"),
            N_RESAMPLES,
            *_ends("value", "the measure"),
            column(
                "p_value",
                pa.float64(),
                "two-sided test of the paired difference by random changes of signs; null for a ratio, which"
                " its difference tests, and with fewer than five questions",
                null=True,
            ),
            column("undefined", pa.string(), "reason why both ends are null", null=True),
        ),
    ),
    Table(
        "correlation_intervals",
        "One row per (dataset, prompt, model, method, relation) with popularity; relation `all` has all answers.",
        (
            DATASET,
            PROMPT,
            MODEL,
            METHOD,
            column("relation", pa.string(), "relation of the questions, or all"),
            column("n_answers", pa.int64(), "answers with popularity above 0"),
            column("n_within", pa.int64(), "those of them whose question has a relation"),
            N_RESAMPLES,
            *_ends("point_biserial", "correlation of log10 popularity and correctness"),
            *_ends("spearman", "rank correlation of popularity and correctness"),
            column("undefined_unbinned", pa.string(), "reason why these four ends are null", null=True),
            *_ends("point_biserial_within", "the same, both as deviations from the relation's mean"),
            *_ends("spearman_within", "rank correlation, with ranks within the relation"),
            column("undefined_within", pa.string(), "reason why these four ends are null", null=True),
        ),
    ),
)
