from longtail.statistics.answer_similarities import compare_models


def model(dbt, session):
    dbt.config(materialized="table")
    sets = dbt.ref("int_answer_sets")
    embeddings = dbt.ref("stg_generation__answer_embeddings")
    return compare_models(sets, embeddings, float(dbt.config.get("same_meaning_cosine")))
