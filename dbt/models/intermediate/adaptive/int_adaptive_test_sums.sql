{%- set costs = ['device_seconds', 'cost_usd'] -%}
{%- set fits = [
    ('exact', 'per_relation'), ('exact', 'all'), ('binned10', 'per_relation'), ('binned10', 'all')
] -%}
-- Every test row is read once, with the thresholds of all searches and scopes side by side.
with test_rows as (select * from {{ ref('int_adaptive_test_rows') }}),

-- An unknown cost is NaN, and so is every sum that includes it.
known as (

    select
        * replace (
            {%- for cost in costs %}
            coalesce(parametric_{{ cost }}, 'nan'::double) as parametric_{{ cost }},
            coalesce(retrieval_{{ cost }}, 'nan'::double) as retrieval_{{ cost }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
    from test_rows

),

summed as (

    select
        pair_id,
        split,
        relation,
        count(*) as n,
        sum(parametric) as n_parametric,
        sum(retrieval) as n_retrieval,
        sum(greatest(parametric, retrieval)) as n_either
        {%- for cost in costs %},
        sum(parametric_{{ cost }}) as parametric_{{ cost }},
        sum(retrieval_{{ cost }}) as retrieval_{{ cost }}
        {%- endfor %}
        {%- for search, scope in fits %}{% set threshold = search ~ '_' ~ scope %},
        count(*) filter (where popularity < {{ threshold }}) as {{ threshold }}_n_retrieved,
        sum(if(popularity < {{ threshold }}, retrieval, parametric)) as {{ threshold }}_n_adaptive
        {%- for cost in costs %},
        sum(
            if(popularity < {{ threshold }}, retrieval_{{ cost }}, parametric_{{ cost }})
        ) as {{ threshold }}_{{ cost }}
        {%- endfor %}{% endfor %}
    from known
    group by pair_id, split, relation

),

final as (
    {% for search, scope in fits %}{% set threshold = search ~ '_' ~ scope %}
    select
        pair_id,
        split,
        relation,
        '{{ search }}' as search,
        '{{ scope }}' as threshold_scope,
        n,
        n_parametric,
        n_retrieval,
        n_either,
        {{ threshold }}_n_adaptive as n_adaptive,
        {{ threshold }}_n_retrieved as n_retrieved,
        {{ threshold }}_device_seconds as adaptive_device_seconds,
        retrieval_device_seconds as always_device_seconds,
        parametric_device_seconds as never_device_seconds,
        {{ threshold }}_cost_usd as adaptive_cost_usd,
        retrieval_cost_usd as always_cost_usd,
        parametric_cost_usd as never_cost_usd
    from summed
    {{ 'union all' if not loop.last }}
    {%- endfor %}

)

select * from final
