from longtail.statistics.paired_comparisons import METHODS_QUERY, compare_methods
from longtail.statistics.results import study_seed


def model(dbt, session):
    dbt.config(materialized="table")
    pairs = dbt.ref("int_method_comparisons").query("int_method_comparisons", METHODS_QUERY)
    return compare_methods(pairs.to_arrow_table(), study_seed())
