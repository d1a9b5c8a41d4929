{{ config(materialized='view') }}

-- A question without a passage is not asked. A retriever without any passage has no partition: all are expected.
with retrieved as (

    select distinct
        dataset,
        question_id,
        retriever as method
    from {{ ref('stg_retrieval__retrieved_passages') }}

),

final as (

    select
        questions.dataset,
        questions.question_id,
        methods.method
    from {{ ref('stg_questions__questions') }} as questions
    cross join {{ ref('stg_study__methods') }} as methods
    left join retrieved using (dataset, question_id, method)
    where
        methods.kind = 'memory'
        or retrieved.question_id is not null
        or (
            methods.kind = 'retrieval'
            and not methods.may_find_nothing
            and methods.method not in (select every.method from retrieved as every)
        )

)

select * from final
