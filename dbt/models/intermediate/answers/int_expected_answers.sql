{{ config(materialized='view') }}

-- A question without a passage is not asked. A retriever without any passage has no partition: all are expected.
with variants as (

    select
        models.model,
        prompts.prompt,
        unnest(prompts.methods) as method
    from {{ ref('stg_study__models') }} as models
    cross join {{ ref('stg_study__prompts') }} as prompts
    where models.backend != 'imported'

),

retrieved as (

    select distinct
        dataset,
        question_id,
        retriever as method
    from {{ ref('stg_retrieval__retrieved_passages') }}

),

asked_of_all as (

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

),

final as (

    select
        asked_of_all.dataset,
        asked_of_all.question_id,
        variants.prompt,
        variants.model,
        asked_of_all.method
    from asked_of_all
    inner join variants using (method)
    union all
    select
        passages.dataset,
        passages.question_id,
        variants.prompt,
        variants.model,
        methods.method
    from {{ ref('int_generated_passages') }} as passages
    inner join {{ ref('stg_questions__questions') }} using (dataset, question_id)
    inner join variants using (model)
    inner join {{ ref('stg_study__methods') }} as methods using (method)
    where methods.kind = 'background'
    union all
    select
        dataset,
        question_id,
        prompt,
        model,
        method
    from {{ ref('stg_imports__answers') }}

)

select * from final
