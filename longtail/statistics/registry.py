"""All statistics. A new one is a module with a `Statistic`, its tables in `longtail/tables`, and a line here."""

from __future__ import annotations

from longtail.statistics.adaptive_gains import ADAPTIVE_GAINS
from longtail.statistics.adaptive_signals import ADAPTIVE_SIGNALS
from longtail.statistics.correlation_intervals import CORRELATION_INTERVALS
from longtail.statistics.factual_consistency import FACTUAL_CONSISTENCY
from longtail.statistics.grounding_intervals import GROUNDING_INTERVALS
from longtail.statistics.method_comparisons import METHOD_COMPARISONS
from longtail.statistics.prediction import PREDICTION
from longtail.statistics.signal_quality import SIGNAL_QUALITY
from longtail.statistics.tuned_models import TUNED_MODELS

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
