from longtail.statistics.prediction import QUERIES, regress_correctness
from longtail.statistics.results import last_build, read, study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    tables = read(session, QUERIES, int_prediction_rows=dbt.ref("int_prediction_rows"))
    return regress_correctness(*tables, study_seed(), last_build(session, dbt.this))
