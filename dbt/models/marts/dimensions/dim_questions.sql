with questions as (select * from {{ ref('int_questions') }}),

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
        gold_answers,
        subject_popularity,
        popularity_measure,
        n_popularity_months
    from questions

)

select * from final
