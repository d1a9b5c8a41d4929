with source as (

    select * from {{ source('lake', 'questions') }}
    where {{ is_declared(['dataset']) }}

),

final as (

    select
        dataset,
        question_id,
        relation,
        property_id,
        subject_id,
        subject,
        subject_aliases,
        question,
        object_ids,
        objects,
        gold_answers
    from source

)

select * from final
