from longtail.statistics.method_comparisons import QUERY, compare_methods
from longtail.statistics.results import study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    pairs = dbt.ref("int_method_comparisons").query("int_method_comparisons", QUERY)
    return compare_methods(pairs.to_arrow_table(), study_seed())
