{%- set costs = ['device_seconds', 'cost_usd'] -%}
{%- set modes = ['adaptive', 'always', 'never'] -%}
-- A sum with an unknown value is NaN, and its mean is null.
with split_costs as (

    select
        pair_id,
        split,
        search,
        threshold_scope,
        sum(n_retrieved) / sum(n) as share_retrieved
        {%- for cost in costs %}{% for mode in modes %},
        if(isnan(sum({{ mode }}_{{ cost }})), null, sum({{ mode }}_{{ cost }}) / sum(n)) as {{ cost }}_{{ mode }}
        {%- endfor %}{% endfor %}
    from {{ ref('int_adaptive_test_sums') }}
    group by pair_id, split, search, threshold_scope

),

reused as (

    select
        pair_id,
        sum(n_reused)::bigint as n_reused
    from {{ ref('int_adaptive_rows') }}
    group by pair_id

),

averaged as (

    select
        pair_id,
        search,
        threshold_scope,
        count(*) as n_splits,
        avg(share_retrieved) as share_retrieved
        {%- for cost in costs %}{% for mode in modes %},
        1000 * {{ whole_mean(cost ~ '_' ~ mode) }} as {{ cost }}_per_1000_{{ mode }}
        {%- endfor %}{% endfor %}
    from split_costs
    group by pair_id, search, threshold_scope

),

final as (

    select
        averaged.*,
        reused.n_reused
    from averaged
    inner join reused using (pair_id)

)

select * from final
