"""All statistics. A new one is a module with a `Statistic`, its tables in `core/tables`, and a line here."""

from __future__ import annotations

from dagster_project.core.statistics.adaptive_gains import ADAPTIVE_GAINS
from dagster_project.core.statistics.adaptive_signals import ADAPTIVE_SIGNALS
from dagster_project.core.statistics.correlation_intervals import CORRELATION_INTERVALS
from dagster_project.core.statistics.factual_consistency import FACTUAL_CONSISTENCY
from dagster_project.core.statistics.grounding_intervals import GROUNDING_INTERVALS
from dagster_project.core.statistics.method_comparisons import METHOD_COMPARISONS
from dagster_project.core.statistics.prediction import PREDICTION
from dagster_project.core.statistics.signal_quality import SIGNAL_QUALITY
from dagster_project.core.statistics.tuned_models import TUNED_MODELS

STATISTICS = (
    ADAPTIVE_GAINS,
    METHOD_COMPARISONS,
    CORRELATION_INTERVALS,
    FACTUAL_CONSISTENCY,
    PREDICTION,
    ADAPTIVE_SIGNALS,
    GROUNDING_INTERVALS,
    TUNED_MODELS,
    SIGNAL_QUALITY,
)
MADE_BY_BUILD = tuple(table for statistic in STATISTICS for table in statistic.tables)
"""Lake tables that are computed from models of the first pass."""
