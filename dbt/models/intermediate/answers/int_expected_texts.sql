{{ config(materialized='view') }}

with models as (

    select model
    from {{ ref('stg_study__models') }}
    where backend != 'imported'

),

questions as (select * from {{ ref('stg_questions__questions') }}),

final as (

    select
        'generated_passages' as table_name,
        questions.dataset,
        questions.question_id,
        null as prompt,
        models.model,
        methods.method
    from questions
    cross join models
    inner join {{ ref('stg_study__methods') }} as methods on methods.kind = 'background'
    union all
    select
        'grounded_generations' as table_name,
        questions.dataset,
        questions.question_id,
        prompts.grounding_prompt as prompt,
        models.model,
        questions.method
    from {{ ref('int_askable_questions') }} as questions
    cross join models
    inner join {{ ref('stg_study__grounding_prompts') }} as prompts
        on list_contains(prompts.datasets, questions.dataset) and list_contains(prompts.methods, questions.method)

)

select * from final
