from longtail.statistics.adaptive_signals import QUERIES, compare_signals
from longtail.statistics.results import last_build, read, read_groups, study_seed
from longtail.statistics.signal_policies import MODEL, ROWS


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
    last = last_build(session, dbt.this)
    return compare_signals(read_groups(session, ROWS, MODEL), *tables, study_seed(), last)
