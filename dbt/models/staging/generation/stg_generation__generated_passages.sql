with source as (

    select * from {{ source('lake', 'generated_passages') }}
    where
        {{ is_declared(['dataset', 'model']) }}
        and 'background' in (select methods.kind from {{ ref('stg_study__methods') }} as methods)

),

final as (

    select
        dataset,
        question_id,
        model,
        passage_id,
        text,
        has_answer,
        has_answer_popqa,
        raw_text,
        {{ account_columns() }},
        {{ generation_key() }} as generation_key
    from source

)

select * from final
