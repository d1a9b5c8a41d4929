from longtail.statistics.correlation_intervals import QUERY, bootstrap_correlations
from longtail.statistics.results import study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    groups = dbt.ref("int_answers").query("int_answers", QUERY)
    return bootstrap_correlations(groups.to_arrow_table(), study_seed())
