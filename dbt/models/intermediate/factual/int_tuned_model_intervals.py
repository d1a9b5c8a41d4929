from longtail.statistics.factual_consistency import TUNED_QUERY, bootstrap_checkpoints
from longtail.statistics.results import study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    measures = dbt.ref("int_tuned_measures").query("int_tuned_measures", TUNED_QUERY)
    return bootstrap_checkpoints(measures.to_arrow_table(), study_seed())
