from longtail.statistics.risk_coverage import PAIRS, risk_coverage
from longtail.statistics.signal_quality import QUERY


def model(dbt, session):
    dbt.config(materialized="table")
    answers = dbt.ref("int_signal_values").query("int_signal_values", QUERY)
    pairs = dbt.ref("int_answer_pairs").query("int_answer_pairs", PAIRS)
    return risk_coverage(answers.to_arrow_table(), pairs.to_arrow_table())
