{{ config(materialized='view') }}

with variants as (

    select
        models.model,
        prompts.prompt,
        unnest(prompts.methods) as method
    from {{ ref('stg_study__models') }} as models
    cross join {{ ref('stg_study__prompts') }} as prompts
    where models.backend != 'imported' and list_contains(prompts.generations, 'questions')

),

final as (

    select
        questions.dataset,
        questions.question_id,
        variants.prompt,
        variants.model,
        questions.method
    from {{ ref('int_askable_questions') }} as questions
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
