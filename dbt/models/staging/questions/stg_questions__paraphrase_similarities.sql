with source as (

    select * from {{ source('lake', 'paraphrase_similarities') }}
    where {{ is_declared(['dataset']) }}

),

final as (

    select
        dataset,
        question_id,
        paraphrase_id,
        cosine,
        encoder
    from source

)

select * from final
