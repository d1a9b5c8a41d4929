with source as (

    select * from {{ source('lake', 'paraphrases') }}
    where {{ is_declared(['dataset']) }}

),

final as (

    select
        dataset,
        question_id,
        paraphrase_id,
        template,
        paraphrase
    from source

)

select * from final
