with questions as (select * from {{ ref('int_questions_by_relation') }}),
reference_questions as (select * from {{ ref('int_reference_popularity') }}),

final as (

    select
        dataset,
        question_id,
        relation,
        false as is_reference,
        subject_popularity as popularity
    from questions
    union all
    select
        dataset,
        question_id,
        'all' as relation,
        true as is_reference,
        popularity
    from reference_questions

)

select * from final
