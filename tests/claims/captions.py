"""Claims of the report's captions and of pages: numbers of the code, of dbt and of the figures' own queries."""

from __future__ import annotations

import re

import duckdb

from dagster_project.same_origin import LARGEST_HEAD
from longtail.generation.latency import N_QUESTIONS
from longtail.processes import GRACE_S
from longtail.report.figures import FIGURES
from longtail.statistics import correlation_intervals
from longtail.statistics.paired_comparisons import N_RESAMPLES
from longtail.statistics.risk_coverage import DELTA
from longtail.study.study import Study
from tests.claims.form import Claim, Computed, caption, constant, dbt_variable

_TRAIN = float(dbt_variable("training_share"))
_LEVELS = (
    "select pow(10, min(level_low_log10) filter (level = '[3,4)')) as low, "
    "pow(10, min(level_low_log10) filter (level = '[4,5)')) as high, "
    "pow(10, min(level_low_log10)) as least from fct_accuracy_by_popularity_level"
)


def _risks_in_query(_: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The greatest risks, as the figure's query has them, in per cent."""
    (sql,) = (figure.sql for figure in FIGURES if figure.key == "risk_coverage")
    return dict(zip(("low", "middle", "high"), re.findall(r"coverage_at_risk_(\d+)", sql), strict=True))


_COMPUTED: tuple[tuple[str, str, str | Computed], ...] = (
    (
        "scaling_by_level",
        "[3,4) has the questions from {low:,.0f} to under {high:,.0f}, `below` those under {least:.0f}",
        _LEVELS,
    ),
    ("headline", "are fitted per relation on {train:p0} % of the questions", constant(train=_TRAIN)),
    (
        "adaptive_accuracy", "({train:p0} % fit the thresholds, {test:p0} % are scored)",
        constant(train=_TRAIN, test=1 - _TRAIN),
    ),
    (
        "correlation_within_relations", "({n:,} resamples of subjects)",
        constant(n=correlation_intervals.N_RESAMPLES),
    ),
    ("paired_comparisons", "({n:,} resamples of subjects)", constant(n=N_RESAMPLES)),
    ("accuracy_by_popularity", "{n:W} bins of equal width", constant(n=dbt_variable("popularity_bins"))),
    (
        "quip_by_popularity", "at most {n} questions of a dataset",
        constant(n=dbt_variable("grounding_questions_per_bin")),
    ),
    ("risk_coverage", "at most {low}, {middle} and {high} % wrong", _risks_in_query),
    (
        "latency", "from up to {n} questions that the model was asked one at a time", constant(n=N_QUESTIONS)
    ),
)  # fmt: skip
CLAIMS = (
    *(Claim(caption(key), says, by) for key, says, by in _COMPUTED),
    Claim(
        "docs/architecture.md",
        "a running sum for each of {splits} splits",
        constant(splits=dbt_variable("adaptive_splits")),
    ),
    Claim("docs/architecture.md", "headers has at most {kb} KB", constant(kb=LARGEST_HEAD // 1024)),
    Claim("docs/architecture.md", "up to {n} questions per method and prompt", constant(n=N_QUESTIONS)),
    Claim("docs/models.md", "`max_new_tokens` ({n} by default)", constant(n=Study.max_new_tokens)),
    Claim(
        "docs/operations.md",
        "end every command and all processes that it started within {s} s",
        constant(s=round(GRACE_S) + 3),
    ),
    Claim("docs/router.md", "with a probability of {kept:p0} %", constant(kept=1 - DELTA)),
)
