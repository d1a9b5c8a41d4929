with source as (

    select * from {{ source('lake', 'grounded_answers') }}
    where {{ is_declared(['dataset', 'model']) }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        answer,
        raw_text,
        {{ account_columns() }},
        {{ generation_key() }} as generation_key
    from source

)

select * from final
