with source as (

    select * from {{ source('lake', 'retrieved_passages') }}

),

datasets as (

    select * from {{ ref('stg_study__datasets') }}

),

methods as (

    select * from {{ ref('stg_study__methods') }}

),

final as (

    select
        source.dataset,
        source.question_id,
        source.retriever,
        source.rank,
        source.passage_id,
        source.score,
        source.has_answer,
        source.has_answer_popqa
    from source
    inner join datasets on source.dataset = datasets.dataset
    inner join methods on source.retriever = methods.method

)

select * from final
