"""Lake tables of bootstraps: numpy computes them from models of the warehouse's first pass."""

from __future__ import annotations

from longtail.tables.schema import (
    DATASET,
    GROUNDING_PROMPT,
    METHOD,
    MODEL,
    PROMPT,
    Column,
    Table,
    float64,
    int32,
    int64,
    measure,
    text,
)

EXPANDED = "; further out where few subjects decide it (Hesterberg 2015)"


def _ends(name: str, meaning: str) -> tuple[Column, Column]:
    """The two columns of a measure's percentile interval."""
    low, high = (
        measure(f"{name}_{end}", f"{meaning}: {place} percentile over the resamples{EXPANDED}")
        for end, place in (("low", "2.5th"), ("high", "97.5th"))
    )
    return low, high


PARAMETRIC_METHOD = text(
    "parametric_method",
    "method that answers from the model's memory (closed_book, genread): used at and above the threshold",
)
RETRIEVAL_METHOD = text("retrieval_method", "method that reads a passage: used below the threshold")
SCOPE = text(
    "threshold_scope",
    "per_relation = each relation has its own threshold; all = one threshold for all relations",
)
N_QUESTIONS = int64("n_questions", "questions with popularity and both answers")
N_RESAMPLES = int32("n_resamples", "bootstrap resamples of subjects")
N_SUBJECTS = int64("n_subjects", "subjects of these questions; a question without a subject is its own")
NO_INTERVAL = text("no_interval", "reason why there is no interval; null where there is one", null=True)
N_DECIDING = float64(
    "n_deciding",
    "effective number of deciding subjects: this many equally large gains and losses would vary as much"
    " as the real ones",
)
STANDARD_ERROR = measure("gain_standard_error", "standard error of the held-out gain")
NO_ERROR = text("undefined", "reason why there is no standard error", null=True)


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
            text(
                "search",
                "how thresholds are searched: exact (every distinct popularity) or binned10 (the edges of ten bins of"
                " equal width in log popularity; SPEC §6)",
            ),
            SCOPE,
            N_QUESTIONS,
            N_RESAMPLES,
            N_DECIDING,
            float64(
                "share_departing",
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
            text("comparison", "methods = two methods with one model; models = two models with one method"),
            text("model_a", "model of the first side"),
            text("method_a", "method of the first side"),
            text("model_b", "model of the second side"),
            text("method_b", "method of the second side"),
            int64("n", "questions that both sides answered"),
            N_SUBJECTS,
            int64("n_a_only", "questions that only the first side answers right"),
            int64("n_b_only", "questions that only the second side answers right"),
            float64(
                "p_value",
                "two-sided test by random changes of the signs of whole subjects' differences, never 0; 1 if no question"
                " is right on one side only",
            ),
            float64(
                "p_mcnemar",
                "exact two-sided McNemar test, which takes questions as independent; smaller values are published as"
                " 2.2e-308",
            ),
            N_RESAMPLES,
            *_ends("difference", "accuracy of the first side minus that of the second"),
            NO_INTERVAL,
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
            text("relation", "relation of the facts, or all"),
            int32("bin", "bin of popularity over all relations; null = all facts", null=True),
            text("measure", "name of the measure, as in fct_factual_consistency"),
            N_SUBJECTS,
            N_RESAMPLES,
            *_ends("value", "the measure"),
            NO_INTERVAL,
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
            text(
                "compared_with",
                "null_prompt: the text under the null prompt, by the same method; no_passage: the text from memory, under"
                " the same grounding prompt",
            ),
            text(
                "measure",
                "quip_ratio, quip_difference: of the means; same_length_ratio, same_length_difference: of the means over"
                " as many 25-grams of both texts, from the start, as the shorter one has; score_difference: of the end"
                " task's score",
            ),
            int64("n_paired", "questions for which both texts have the score"),
            N_SUBJECTS,
            N_RESAMPLES,
            *_ends("value", "the measure"),
            measure(
                "p_value",
                "two-sided test of the paired difference by random changes of the signs of whole subjects, never 0; null"
                " for a ratio, which its difference tests",
            ),
            NO_INTERVAL,
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
            text("relation", "relation of the questions, or all"),
            int64("n_answers", "answers with popularity above 0"),
            int64("n_within", "those of them whose question has a relation"),
            N_SUBJECTS,
            N_RESAMPLES,
            *_ends("point_biserial", "correlation of log10 popularity and correctness"),
            *_ends("spearman", "rank correlation of popularity and correctness"),
            NO_INTERVAL,
            *_ends("point_biserial_within", "the same, both as deviations from the relation's mean"),
            *_ends("spearman_within", "rank correlation, with ranks within the relation"),
            text("no_interval_within", "the same for these four ends", null=True),
        ),
    ),
)
