{{ config(materialized='view') }}

-- What the study asks its own models, and what imported files say of theirs. A question without a passage is not asked.
with models as (

    select model
    from {{ ref('stg_study__models') }}
    where backend != 'imported'

),

prompts as (

    select prompt
    from {{ ref('stg_study__prompts') }}
    where list_contains(asks, 'questions')

),

before_questions as (

    select distinct
        dataset,
        question_id,
        retriever as method,
        null as model
    from {{ ref('stg_retrieval__retrieved_passages') }}
    union all
    select
        dataset,
        question_id,
        'genread' as method,
        model
    from {{ ref('int_generated_passages') }}

),

asked as (

    select
        questions.dataset,
        questions.question_id,
        prompts.prompt,
        models.model,
        methods.method
    from {{ ref('stg_questions__questions') }} as questions
    cross join prompts
    cross join models
    cross join {{ ref('stg_study__methods') }} as methods

),

final as (

    select asked.*
    from asked
    left join before_questions as retrieved
        on
            asked.dataset = retrieved.dataset
            and asked.question_id = retrieved.question_id
            and asked.method = retrieved.method
            and (retrieved.model is null or asked.model = retrieved.model)
    where asked.method = 'closed_book' or retrieved.method is not null
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
