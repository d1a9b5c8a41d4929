with datasets as (

    select * from {{ ref('stg_study__datasets') }}

),

questions as (

    select * from {{ ref('int_questions') }}

),

final as (

    select
        datasets.dataset,
        datasets.source,
        datasets.relations,
        datasets.snapshot,
        count(questions.question_id) as n_questions,
        count(questions.subject_popularity) as n_questions_with_popularity
    from datasets
    left join questions on datasets.dataset = questions.dataset
    group by all

)

select * from final
