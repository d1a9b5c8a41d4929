with questions as (select * from {{ ref('int_questions') }}),

final as (

    select
        dataset,
        question_id,
        cluster_id,
        {{ relation_groups() }} as relation,
        subject_popularity
    from questions

)

select * from final
