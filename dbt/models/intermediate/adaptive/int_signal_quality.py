from longtail.statistics.results import last_build, study_seed
from longtail.statistics.signal_quality import QUERY_WITH_COUNTS, measure_signals


def model(dbt, session):
    dbt.config(materialized="table")
    groups = dbt.ref("int_signal_values").query("int_signal_values", QUERY_WITH_COUNTS)
    return measure_signals(groups.to_arrow_table(), study_seed(), last_build(session, dbt.this))
