with source as (

    select * from {{ source('lake', 'answers') }}
    where {{ is_declared(['dataset', 'model', 'method', 'prompt'], generations='questions') }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        prompt,
        passage_id,
        passage_ids,
        demonstration_ids,
        demonstration_passage_ids,
        {{ scored_columns() }},
        {{ account_columns() }},
        {{ generation_key() }} as generation_key
    from source

)

select * from final
