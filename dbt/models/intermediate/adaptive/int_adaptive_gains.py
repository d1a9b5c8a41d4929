from longtail.statistics.adaptive_gains import QUERIES, bootstrap_adaptive_gains
from longtail.statistics.results import last_build, read, study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    tables = read(
        session,
        QUERIES,
        int_method_pairs=dbt.ref("int_method_pairs"),
        int_adaptive_rows=dbt.ref("int_adaptive_rows"),
        int_adaptive_edges=dbt.ref("int_adaptive_edges"),
    )
    return bootstrap_adaptive_gains(*tables, study_seed(), last_build(session, dbt.this))
