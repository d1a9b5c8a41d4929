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

calibrations as (

    select * from {{ ref('stg_generation__latency_calibrations') }}

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

final as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        method_pairs.n_questions,
        averaged.* exclude (pair_id),  -- noqa: RF02
        retrieval.single_latency_ms as single_latency_ms_always,
        parametric.single_latency_ms as single_latency_ms_never,
        single_latency_ms_always * averaged.share_retrieved
        + single_latency_ms_never * (1 - averaged.share_retrieved) as single_latency_ms_adaptive,
        averaged.device_seconds_per_1000_always
        - averaged.device_seconds_per_1000_adaptive as device_seconds_per_1000_saved,
        averaged.cost_usd_per_1000_always - averaged.cost_usd_per_1000_adaptive as cost_usd_per_1000_saved,
        single_latency_ms_always - single_latency_ms_adaptive as single_latency_ms_saved
    from averaged
    inner join method_pairs on averaged.pair_id = method_pairs.pair_id
    left join calibrations as retrieval
        on
            method_pairs.model = retrieval.model
            and method_pairs.retrieval_method = retrieval.method
            and method_pairs.prompt = retrieval.prompt
    left join calibrations as parametric
        on
            method_pairs.model = parametric.model
            and method_pairs.parametric_method = parametric.method
            and method_pairs.prompt = parametric.prompt

)

select * from final
