{%- set costs = ['device_seconds', 'cost_usd'] -%}
{%- set modes = {'adaptive': 'mixed', 'always': 'retrieval', 'never': 'parametric'} -%}
with test_answers as (

    select * from {{ ref('int_adaptive_test_answers') }}

),

mixed as (

    select
        *,
        if(popularity < threshold, retrieval_device_seconds, parametric_device_seconds) as mixed_device_seconds,
        if(popularity < threshold, retrieval_cost_usd, parametric_cost_usd) as mixed_cost_usd
    from test_answers

),

final as (

    select
        pair_id,
        split,
        search,
        threshold_scope
        {%- for cost in costs %}{% for mode, answered in modes.items() %},
        {{ whole_mean(answered ~ '_' ~ cost) }} as {{ cost }}_{{ mode }}
        {%- endfor %}{% endfor %}
    from mixed
    group by pair_id, split, search, threshold_scope

)

select * from final
