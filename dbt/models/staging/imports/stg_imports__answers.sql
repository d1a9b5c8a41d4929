with source as (

    select * from {{ source('lake', 'imported_answers') }}
    where {{ is_declared(['dataset', 'model', 'method', 'prompt'], generations='questions') }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        prompt,
        is_correct,
        has_answer,
        made_by,
        place
    from source

)

select * from final
