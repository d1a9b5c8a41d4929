from longtail.statistics.adaptive_signals import QUERIES, compare_signals
from longtail.statistics.results import last_build, read, study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    tables = read(
        session,
        QUERIES,
        int_signal_rows=dbt.ref("int_signal_rows"),
        int_answer_pairs=dbt.ref("int_answer_pairs"),
        int_method_pairs=dbt.ref("int_method_pairs"),
        int_adaptive_splits=dbt.ref("int_adaptive_splits"),
        int_decisions=dbt.ref("int_decisions"),
        int_signal_values=dbt.ref("int_signal_values"),
    )
    return compare_signals(*tables, study_seed(), last_build(session, dbt.this))
