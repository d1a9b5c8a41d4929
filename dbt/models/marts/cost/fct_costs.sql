with costs as (select * from {{ ref('int_answer_costs') }}),

-- A service bills tokens from its own cache like any other, so its price does not change with shared tokens.
final as (

    select
        dataset,
        prompt,
        model,
        method,
        count(*) as n,
        count(*) filter (where is_reused) as n_reused,
        count(*) filter (where has_background) as n_background_texts,
        {{ whole_sum('attributed_device_seconds') }} as device_seconds,
        {{ whole_sum('attributed_cost_usd') }} as cost_usd,
        1000 * {{ whole_mean('prompt_tokens') }} as prompt_tokens_per_1000,
        1000 * {{ whole_mean('shared_tokens') }} as shared_tokens_per_1000,
        1000 * {{ whole_mean('new_tokens') }} as new_tokens_per_1000,
        sum(shared_tokens) / nullif(sum(prompt_tokens), 0) as share_of_prompt_tokens_shared,
        {{ whole_mean('latency_ms') }} as latency_seconds_per_1000,
        min(single_latency_ms) as single_latency_ms,
        1000 * {{ whole_mean('device_seconds') }} as device_seconds_per_1000,
        1000 * {{ whole_mean('cost_usd') }} as cost_usd_per_1000,
        device_seconds_per_1000 * {{ unshared_ratio() }} as device_seconds_unshared_estimate_per_1000,
        cost_usd_per_1000
        * if(count(device_seconds) = 0, 1, {{ unshared_ratio() }}) as cost_usd_unshared_estimate_per_1000
    from costs
    group by dataset, prompt, model, method

)

select * from final
