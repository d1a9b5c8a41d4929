-- Consistency and certainty are those of the pair's own prompt, or of another prompt that asks paraphrases and samples.
with adaptive_rows as (

    select * exclude (dataset) from {{ ref('int_adaptive_rows') }}

),

method_pairs as (select * from {{ ref('int_method_pairs') }}),

consistency as (

    select
        *,
        scons is not null and cert is not null as is_whole
    from {{ ref('int_question_consistency') }}

),

prompts as (

    select
        method_pairs.pair_id,
        consistency.prompt as signal_prompt,
        consistency.prompt = method_pairs.prompt as is_own_prompt
    from method_pairs
    inner join consistency using (dataset, model)
    group by method_pairs.pair_id, method_pairs.prompt, consistency.prompt
    qualify row_number() over (
        partition by method_pairs.pair_id
        order by bool_or(consistency.is_whole) desc, is_own_prompt desc, consistency.prompt asc
    ) = 1

),

final as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        adaptive_rows.* exclude (pair_id),  -- noqa: RF02
        prompts.signal_prompt,
        -- Cosines of single-precision vectors: differences below a millionth are rounding, and no predictor.
        round(consistency.scons, 6) as scons,
        round(consistency.cert, 6) as cert,
        costs.signal_tokens,
        costs.signal_device_seconds,
        costs.signal_cost_usd,
        costs.signal_single_latency_ms as signal_latency_ms
    from adaptive_rows
    inner join method_pairs using (pair_id)
    left join prompts using (pair_id)
    left join consistency
        on
            method_pairs.dataset = consistency.dataset
            and method_pairs.model = consistency.model
            and adaptive_rows.question_id = consistency.question_id
            and prompts.signal_prompt = consistency.prompt
    left join {{ ref('int_signal_costs') }} as costs
        on
            consistency.dataset = costs.dataset
            and consistency.model = costs.model
            and consistency.question_id = costs.question_id
            and consistency.prompt = costs.prompt
            and prompts.is_own_prompt = costs.is_own_prompt

)

select * from final
