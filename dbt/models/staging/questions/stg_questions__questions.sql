with source as (

    select * from {{ source('lake', 'questions') }}

),

datasets as (

    select * from {{ ref('stg_study__datasets') }}

),

final as (

    select
        source.dataset,
        source.question_id,
        source.relation,
        source.property_id,
        source.subject_id,
        source.subject,
        source.subject_aliases,
        source.question,
        source.object_ids,
        source.objects,
        source.gold_answers
    from source
    inner join datasets on source.dataset = datasets.dataset

)

select * from final
