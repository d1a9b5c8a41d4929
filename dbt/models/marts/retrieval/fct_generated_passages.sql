with generated_passages as (

    select * from {{ ref('int_generated_passages') }}

),

questions as (

    select * from {{ ref('int_questions') }}

),

final as (

    select
        generated_passages.dataset,
        generated_passages.question_id,
        questions.relation,
        generated_passages.* exclude (dataset, question_id)  -- noqa: RF02
    from generated_passages
    left join questions
        on
            generated_passages.dataset = questions.dataset
            and generated_passages.question_id = questions.question_id

)

select * from final
