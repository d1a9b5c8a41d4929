with answers as (select * from {{ ref('int_answers') }}),
methods as (select * from {{ ref('stg_study__methods') }}),

costed as (

    select
        answers.*,
        methods.is_parametric,
        methods.is_condition,
        {{ with_background('prompt_tokens') }} + {{ with_background('new_tokens') }} as total_tokens,
        {{ with_background('device_seconds') }} as total_device_seconds,
        {{ with_background('cost_usd') }} as total_cost_usd
    from answers
    inner join methods using (method)
    left join {{ ref('int_generated_passages') }} as generated_passages
        using (dataset, question_id, model, passage_id)

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
        -- a number of the pair of methods; null for a condition
        if(
            retrieval.is_condition,
            null,
            dense_rank() over (
                partition by retrieval.is_condition
                order by dataset, prompt, model, parametric.method, retrieval.method
            )
        )::integer as pair_id,
        parametric.dataset,
        parametric.prompt,
        parametric.model,
        parametric.method as parametric_method,
        retrieval.method as retrieval_method,
        parametric.question_id,
        parametric.cluster_id,
        parametric.relation,
        parametric.subject_popularity,
        parametric.is_correct as parametric_correct,
        retrieval.is_correct as retrieval_correct,
        retrieval.has_answer,
        retrieval.first_has_answer,
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
