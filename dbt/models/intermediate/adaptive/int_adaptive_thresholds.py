from longtail.statistics.adaptive_thresholds import fit_thresholds


def model(dbt, session):
    dbt.config(materialized="table")
    rows = dbt.ref("int_adaptive_rows").select(
        "pair_id, dataset, question_id, relation, popularity, parametric, retrieval"
    )
    splits = dbt.ref("int_adaptive_splits")
    edges = dbt.ref("int_adaptive_edges").select("pair_id, relation, threshold_popularity")
    return fit_thresholds(rows.to_arrow_table(), splits.to_arrow_table(), edges.to_arrow_table())
