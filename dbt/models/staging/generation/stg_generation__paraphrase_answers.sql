with source as (

    select * from {{ source('lake', 'paraphrase_answers') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}

),

final as (

    select
        dataset,
        question_id,
        paraphrase_id,
        model,
        prompt,
        demonstration_ids,
        {{ scored_columns() }},
        {{ account_columns() }},
        {{ generation_key() }} as generation_key
    from source

)

select * from final
