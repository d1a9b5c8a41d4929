{%- set costs = ['device_seconds', 'cost_usd'] -%}
{%- set modes = ['adaptive', 'always', 'never'] -%}
with split_costs as (

    select * from {{ ref('int_adaptive_split_costs') }}

),

adaptive_accuracy as (

    select * from {{ ref('int_adaptive_split_accuracy') }}

),

method_pairs as (

    select * from {{ ref('int_method_pairs') }}

),

reused as (

    select
        pair_id,
        sum(n_reused)::bigint as n_reused
    from {{ ref('int_adaptive_rows') }}
    group by pair_id

),

latencies as (

    select * from {{ ref('int_latencies') }}

),

differences as (

    select * from {{ ref('int_latency_differences') }}

),

averaged as (

    select
        pair_id,
        search,
        threshold_scope,
        count(*) as n_splits,
        avg(adaptive_accuracy.share_retrieved) as share_retrieved
        {%- for cost in costs %}{% for mode in modes %},
        1000 * {{ whole_mean(cost ~ '_' ~ mode) }} as {{ cost }}_per_1000_{{ mode }}
        {%- endfor %}{% endfor %}
    from split_costs
    inner join adaptive_accuracy using (pair_id, split, search, threshold_scope)
    group by pair_id, search, threshold_scope

),

timed as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        method_pairs.n_questions,
        reused.n_reused,
        averaged.* exclude (pair_id),  -- noqa: RF02
        differences.n as n_timed,
        retrieval.median_ms as single_latency_ms_always,
        parametric.median_ms as single_latency_ms_never,
        retrieval.median_ms * averaged.share_retrieved
        + parametric.median_ms * (1 - averaged.share_retrieved) as single_latency_ms_adaptive,
        differences.median_ms * (1 - averaged.share_retrieved) as single_latency_ms_saved,
        differences.ci_low * (1 - averaged.share_retrieved) as single_latency_ms_saved_low,
        differences.ci_high * (1 - averaged.share_retrieved) as single_latency_ms_saved_high,
        case
            when differences.n is null then null
            when differences.is_interleaved and single_latency_ms_saved_low > 0 then 'saves'
            when differences.is_interleaved and single_latency_ms_saved_high < 0 then 'takes_longer'
            else 'undecided'
        end as latency_claim
    from averaged
    inner join method_pairs on averaged.pair_id = method_pairs.pair_id
    inner join reused on averaged.pair_id = reused.pair_id
    left join differences
        on
            method_pairs.model = differences.model
            and method_pairs.prompt = differences.prompt
            and method_pairs.parametric_method = differences.parametric_method
            and method_pairs.retrieval_method = differences.retrieval_method
    left join latencies as retrieval
        on
            method_pairs.model = retrieval.model
            and method_pairs.retrieval_method = retrieval.method
            and method_pairs.prompt = retrieval.prompt
    left join latencies as parametric
        on
            method_pairs.model = parametric.model
            and method_pairs.parametric_method = parametric.method
            and method_pairs.prompt = parametric.prompt

),

differing as (

    select
        *,
        device_seconds_per_1000_always - device_seconds_per_1000_adaptive as device_seconds_less,
        cost_usd_per_1000_always - cost_usd_per_1000_adaptive as cost_usd_less,
        case latency_claim when 'saves' then 1 when 'takes_longer' then -1 else 0 end as claimed_sign
    from timed

),

-- Batches of two methods ran at different times, and have no interval: what they differ by is claimed only where the
-- calibration says that it has this sign. What a service bills is no measurement.
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
