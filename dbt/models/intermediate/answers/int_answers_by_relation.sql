{{ config(materialized='view') }}

with answers as (select * from {{ ref('int_answers') }}),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        question_id,
        {{ relation_groups() }} as relation,
        subject_popularity,
        is_correct
    from answers

)

select * from final
