"""Claims of the report's captions: numbers of the code, of dbt and of the figures' own queries."""

from __future__ import annotations

import re

import duckdb

from longtail.generation.latency import N_QUESTIONS
from longtail.report.figures import FIGURES
from longtail.statistics import correlation_intervals
from longtail.statistics.method_comparisons import N_RESAMPLES
from tests.claims.form import Claim, Computed, caption, constant, dbt_variable

_TRAIN = float(dbt_variable("training_share"))
_LEVELS = (
    "select pow(10, min(level_low_log10) filter (level = '[3,4)')) as low, "
    "pow(10, min(level_low_log10) filter (level = '[4,5)')) as high, "
    "pow(10, min(level_low_log10)) as least from fct_accuracy_by_popularity_level"
)


def _in_query(key: str, pattern: str) -> Computed:
    """Number `n`, as the figure's query has it."""
    (sql,) = (figure.sql for figure in FIGURES if figure.key == key)
    found = re.search(pattern, sql)
    assert found, f"{key}: its query has no {pattern}"
    return constant(n=found[1])


def _risks_in_query(_: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The greatest risks, as the figure's query has them, in per cent."""
    (sql,) = (figure.sql for figure in FIGURES if figure.key == "risk_coverage")
    return dict(zip(("low", "middle", "high"), re.findall(r"coverage_at_risk_(\d+)", sql), strict=True))


CLAIMS = (
    Claim(
        caption("accuracy_by_popularity"),
        "Bins under {n} questions",
        _in_query("accuracy_by_popularity", r"n >= (\d+)"),
    ),
    Claim(
        caption("accuracy_by_popularity_and_relation"),
        "bins under {n} questions",
        _in_query("accuracy_by_popularity_and_relation", r"n >= (\d+)"),
    ),
    Claim(
        caption("accuracy_by_relative_popularity"),
        "Bins under {n} questions",
        _in_query("accuracy_by_relative_popularity", r"n >= (\d+)"),
    ),
    Claim(
        caption("prediction_calibration"),
        "Bins under {n} questions",
        _in_query("prediction_calibration", r"n >= (\d+)"),
    ),
    Claim(
        caption("prediction_diagnostics"),
        "and under {n} questions",
        _in_query("prediction_diagnostics", r"n >= (\d+)"),
    ),
    Claim(
        caption("scaling_by_level"),
        "levels under {n} questions",
        _in_query("scaling_by_level", r"n >= (\d+)"),
    ),
    Claim(
        caption("scaling_by_level"),
        "[3,4) has the questions from {low:,.0f} to under {high:,.0f}, `below` those under {least:.0f}",
        _LEVELS,
    ),
    Claim(
        caption("headline"),
        "are fitted per relation on {train:p0} % of the questions",
        constant(train=_TRAIN),
    ),
    Claim(
        caption("adaptive_accuracy"),
        "({train:p0} % fit the thresholds, {test:p0} % are scored)",
        constant(train=_TRAIN, test=1 - _TRAIN),
    ),
    Claim(
        caption("correlation_within_relations"),
        "({n:,} resamples of subjects)",
        constant(n=correlation_intervals.N_RESAMPLES),
    ),
    Claim(caption("paired_comparisons"), "({n:,} resamples of subjects)", constant(n=N_RESAMPLES)),
    Claim(
        caption("paired_comparisons"),
        "not significant at {n} after",
        _in_query("paired_comparisons", r"p_holm < ([\d.]+)"),
    ),
    Claim(
        caption("misled_by_a_passage"),
        "At most {n} per model",
        _in_query("misled_by_a_passage", r"place <= (\d+)"),
    ),
    Claim(
        caption("rescued_by_a_passage"),
        "At most {n} per model",
        _in_query("rescued_by_a_passage", r"place <= (\d+)"),
    ),
    Claim(
        caption("misled_by_a_passage"),
        "cut at {n} characters",
        _in_query("misled_by_a_passage", r"passage_text\[1:(\d+)\]"),
    ),
    Claim(
        caption("rescued_by_a_passage"),
        "cut at {n} characters",
        _in_query("rescued_by_a_passage", r"passage_text\[1:(\d+)\]"),
    ),
    Claim(
        caption("accuracy_by_popularity"),
        "{n:W} bins of equal width",
        constant(n=dbt_variable("popularity_bins")),
    ),
    Claim(
        caption("quip_by_popularity"),
        "at most {n} questions of a dataset",
        constant(n=dbt_variable("grounding_questions_per_bin")),
    ),
    Claim(
        caption("risk_coverage"),
        "at most {low}, {middle} and {high} % wrong",
        _risks_in_query,
    ),
    Claim(
        caption("latency"),
        "from up to {n} questions that the model was asked one at a time",
        constant(n=N_QUESTIONS),
    ),
)
