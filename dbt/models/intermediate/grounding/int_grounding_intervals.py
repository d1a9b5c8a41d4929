from longtail.statistics.paired_comparisons import PROMPTS_QUERY, compare_prompts
from longtail.statistics.results import read, study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    (comparisons,) = read(
        session,
        [PROMPTS_QUERY],
        int_grounding_pairs=dbt.ref("int_grounding_pairs"),
        int_questions=dbt.ref("int_questions"),
    )
    return compare_prompts(comparisons, study_seed())
