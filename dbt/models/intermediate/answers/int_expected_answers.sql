{{ config(materialized='view') }}

-- What the study asks its own models, and what imported files say of theirs. A question without a passage is not asked;
-- where a retriever gave none at all, its partition is missing, and every question is expected.
with questions as (

    select
        dataset,
        question_id
    from {{ ref('stg_questions__questions') }}

),

methods as (

    select * from {{ ref('stg_study__methods') }}

),

models as (

    select model
    from {{ ref('stg_study__models') }}
    where backend != 'imported'

),

prompts as (

    select prompt
    from {{ ref('stg_study__prompts') }}
    where list_contains(asks, 'questions')

),

retrieved as (

    select distinct
        dataset,
        question_id,
        retriever as method
    from {{ ref('stg_retrieval__retrieved_passages') }}

),

-- Every model is asked these. One join by equal keys: with genread's rows among them, which are of one model each, it
-- would have to compare all with all.
asked_of_all as (

    select
        questions.dataset,
        questions.question_id,
        methods.method
    from questions
    cross join methods
    where
        methods.method = 'closed_book'
        or (
            methods.method not in ('genread', 'oracle')
            and methods.method not in (select retrieved.method from retrieved)
        )
    union all
    select retrieved.*
    from retrieved
    inner join questions using (dataset, question_id)
    inner join methods using (method)

),

asked as (

    select
        asked_of_all.*,
        models.model
    from asked_of_all
    cross join models
    union all
    select
        passages.dataset,
        passages.question_id,
        methods.method,
        passages.model
    from {{ ref('int_generated_passages') }} as passages
    inner join questions using (dataset, question_id)
    inner join models using (model)
    inner join methods on methods.method = 'genread'

),

final as (

    select
        asked.dataset,
        asked.question_id,
        prompts.prompt,
        asked.model,
        asked.method
    from asked
    cross join prompts
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
