with averages as (select * from {{ ref('int_adaptive_average_costs') }}),
latencies as (select * from {{ ref('int_adaptive_latencies') }}),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

differing as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        method_pairs.n_questions,
        averages.* exclude (pair_id),  -- noqa: RF02
        latencies.* exclude (pair_id, search, threshold_scope),  -- noqa: RF02
        averages.device_seconds_per_1000_always - averages.device_seconds_per_1000_adaptive as device_seconds_less,
        averages.cost_usd_per_1000_always - averages.cost_usd_per_1000_adaptive as cost_usd_less,
        case latencies.latency_claim when 'saves' then 1 when 'takes_longer' then -1 else 0 end as claimed_sign
    from averages
    inner join method_pairs using (pair_id)
    inner join latencies using (pair_id, search, threshold_scope)

),

-- Batches of two methods ran at different times and have no interval. So their difference is claimed only if the
-- calibration shows the same sign. The bill of a service is exact and needs no such check.
final as (

    select
        * exclude (device_seconds_less, cost_usd_less, claimed_sign),
        if(sign(device_seconds_less) * claimed_sign > 0, device_seconds_less, null) as device_seconds_per_1000_saved,
        if(
            device_seconds_less is null or sign(cost_usd_less) * claimed_sign > 0, cost_usd_less, null
        ) as cost_usd_per_1000_saved
    from differing

)

select * from final
