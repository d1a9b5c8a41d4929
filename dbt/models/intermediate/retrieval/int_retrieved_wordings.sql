-- Retrievers that found passages for the questions alone have no row.
with retrieved as (select * from {{ ref('stg_retrieval__retrieved_wordings') }}),
passages as (select * from {{ ref('stg_retrieval__cited_passages') }}),
wordings as (select * from {{ ref('stg_questions__paraphrases') }}),

retrievers as (

    select distinct
        dataset,
        retriever
    from retrieved
    where paraphrase_id > 0

),

found as (

    select
        retrieved.dataset,
        retrieved.question_id,
        retrieved.paraphrase_id,
        retrieved.retriever,
        list(retrieved.passage_id order by retrieved.rank) as passage_ids,
        list(distinct passages.title order by passages.title) as titles,
        any_value(retrieved.query_embedding) as query_embedding
    from retrieved
    inner join retrievers using (dataset, retriever)
    left join passages using (passage_id)
    group by retrieved.dataset, retrieved.question_id, retrieved.paraphrase_id, retrieved.retriever

),

final as (

    select
        wordings.dataset,
        wordings.question_id,
        wordings.paraphrase_id,
        retrievers.retriever,
        coalesce(found.passage_ids, []) as passage_ids,
        coalesce(found.titles, []) as titles,
        found.query_embedding
    from wordings
    inner join retrievers using (dataset)
    left join found
        on
            wordings.dataset = found.dataset
            and wordings.question_id = found.question_id
            and wordings.paraphrase_id = found.paraphrase_id
            and retrievers.retriever = found.retriever

)

select * from final
