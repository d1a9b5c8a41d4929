with answers as (

    select * from {{ ref('int_answers') }}

),

methods as (

    select * from {{ ref('stg_study__methods') }}

),

parametric as (

    select answers.*
    from answers
    inner join methods on answers.method = methods.method
    where methods.is_parametric

),

retrieval as (

    select answers.*
    from answers
    inner join methods on answers.method = methods.method
    where not methods.is_parametric

),

final as (

    select
        parametric.dataset,
        parametric.prompt,
        parametric.model,
        parametric.method as parametric_method,
        retrieval.method as retrieval_method,
        parametric.question_id,
        parametric.relation,
        parametric.subject_popularity,
        parametric.is_correct as parametric_correct,
        retrieval.is_correct as retrieval_correct,
        coalesce(retrieval.has_answer, false) as has_answer
    from parametric
    inner join retrieval
        on
            parametric.dataset = retrieval.dataset
            and parametric.prompt = retrieval.prompt
            and parametric.model = retrieval.model
            and parametric.question_id = retrieval.question_id

)

select * from final
