from longtail.statistics.grounding_intervals import QUERY, compare_prompts
from longtail.statistics.results import read, study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    (comparisons,) = read(
        session,
        [QUERY],
        int_grounding_pairs=dbt.ref("int_grounding_pairs"),
        int_questions=dbt.ref("int_questions"),
    )
    return compare_prompts(comparisons, study_seed())
