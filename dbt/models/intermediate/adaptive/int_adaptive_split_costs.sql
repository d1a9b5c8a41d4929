-- A sum with an unknown value is NaN, and its mean is null.
with test_sums as (

    select * from {{ ref('int_adaptive_test_sums') }}

),

final as (

    select
        pair_id,
        split,
        search,
        threshold_scope
        {%- for cost in ['device_seconds', 'cost_usd'] %}{% for mode in ['adaptive', 'always', 'never'] %},
        if(isnan(sum({{ mode }}_{{ cost }})), null, sum({{ mode }}_{{ cost }}) / sum(n)) as {{ cost }}_{{ mode }}
        {%- endfor %}{% endfor %}
    from test_sums
    group by pair_id, split, search, threshold_scope

)

select * from final
