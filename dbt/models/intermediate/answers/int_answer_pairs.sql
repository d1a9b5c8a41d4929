with answers as (select * from {{ ref('int_answers') }}),
methods as (select * from {{ ref('stg_study__methods') }}),

costed as (

    select
        answers.*,
        methods.is_parametric,
        costs.prompt_tokens + costs.new_tokens as total_tokens,
        costs.device_seconds as total_device_seconds,
        costs.cost_usd as total_cost_usd
    from answers
    inner join {{ ref('int_answer_costs') }} as costs using (dataset, question_id, model, method, prompt)
    inner join methods on answers.method = methods.method

),

parametric as (

    select * from costed
    where is_parametric

),

retrieval as (

    select * from costed
    where not is_parametric

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
        coalesce(retrieval.has_answer, false) as has_answer,
        coalesce(retrieval.first_has_answer, false) as first_has_answer,
        parametric.is_reused::integer + retrieval.is_reused::integer as n_reused,
        {{ confidence('parametric') }} as parametric_confidence,
        {{ confidence('retrieval') }} as retrieval_confidence,
        parametric.total_tokens as parametric_tokens,
        parametric.total_device_seconds as parametric_device_seconds,
        retrieval.total_device_seconds as retrieval_device_seconds,
        parametric.total_cost_usd as parametric_cost_usd,
        retrieval.total_cost_usd as retrieval_cost_usd,
        parametric.single_latency_ms as parametric_latency_ms,
        retrieval.single_latency_ms as retrieval_latency_ms
    from parametric
    inner join retrieval using (dataset, prompt, model, question_id)

)

select * from final
