with source as (

    select * from {{ source('lake', 'retrieved_passages') }}
    where {{ is_declared(['dataset', 'retriever']) }}

),

final as (

    select
        dataset,
        question_id,
        paraphrase_id,
        retriever,
        rank,
        passage_id,
        query_embedding
    from source

)

select * from final
