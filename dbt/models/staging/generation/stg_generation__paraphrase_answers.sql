with source as (

    select * from {{ source('lake', 'paraphrase_answers') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], asks='paraphrases') }}

),

final as (

    select
        dataset,
        question_id,
        paraphrase_id,
        model,
        prompt,
        {{ scored_columns() }},
        {{ account_columns() }}
    from source

)

select * from final
