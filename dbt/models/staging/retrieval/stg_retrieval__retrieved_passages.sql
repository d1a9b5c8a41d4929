with source as (

    select * from {{ source('lake', 'retrieved_passages') }}
    where {{ is_declared(['dataset', 'retriever']) }} and paraphrase_id = 0

),

final as (

    select
        dataset,
        question_id,
        retriever,
        rank,
        passage_id,
        score,
        has_answer,
        has_answer_popqa
    from source

)

select * from final
