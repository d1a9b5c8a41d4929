with source as (

    select * from {{ source('lake', 'reference_questions') }}

),

final as (

    select
        dataset,
        question_id,
        question,
        gold_answers
    from source

)

select * from final
