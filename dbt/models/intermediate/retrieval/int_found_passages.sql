with retrieved_passages as (

    select * from {{ ref('stg_retrieval__retrieved_passages') }}

),

final as (

    select
        dataset,
        question_id,
        retriever,
        list(distinct passage_id order by passage_id) as passage_ids,
        coalesce(list(distinct passage_id order by passage_id) filter (where has_answer), []) as answering_ids
    from retrieved_passages
    group by dataset, question_id, retriever

)

select * from final
