with source as (

    select * from {{ source('lake', 'paraphrases') }}

),

datasets as (

    select * from {{ ref('stg_study__datasets') }}

),

final as (

    select
        source.dataset,
        source.question_id,
        source.paraphrase_id,
        source.template,
        source.paraphrase
    from source
    inner join datasets on source.dataset = datasets.dataset

)

select * from final
