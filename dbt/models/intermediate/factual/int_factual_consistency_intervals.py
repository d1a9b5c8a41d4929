from longtail.statistics.factual_consistency import QUERIES, bootstrap_facts
from longtail.statistics.results import read, study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    tables = read(
        session,
        QUERIES,
        int_fact_measures=dbt.ref("int_fact_measures"),
        int_questions=dbt.ref("int_questions"),
        int_question_bins=dbt.ref("int_question_bins"),
    )
    return bootstrap_facts(*tables, study_seed())
