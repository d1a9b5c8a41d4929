from longtail.statistics.adaptive_thresholds import fit_months


def model(dbt, session):
    dbt.config(materialized="table")
    rows = dbt.ref("int_adaptive_rows")
    monthly = dbt.ref("int_monthly_popularity")
    thresholds = dbt.ref("int_adaptive_thresholds").filter("split = -1 and relation = 'all' and search = 'exact'")
    return fit_months(rows.to_arrow_table(), monthly.to_arrow_table(), thresholds.to_arrow_table())
