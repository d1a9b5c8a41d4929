{%- set quantiles = {'p05': 0.05, 'p10': 0.1, 'p25': 0.25, 'median': 0.5, 'p75': 0.75, 'p90': 0.9, 'p95': 0.95} -%}
with questions as (select * from {{ ref('int_distribution_questions') }}),

final as (

    select
        dataset,
        relation,
        is_reference,
        count(*) as n_questions,
        count(*) filter (where popularity is null) as n_missing,
        count(*) filter (where popularity = 0) as n_zero,
        count(*) filter (where popularity > 0) as n_above_zero,
        min(popularity) as minimum,
        {%- for name, share in quantiles.items() %}
        quantile_cont(popularity, {{ share }}) as {{ name }},
        {%- endfor %}
        max(popularity) as maximum,
        avg(log10(nullif(popularity, 0))) as mean_log10
    from questions
    group by dataset, relation, is_reference

)

select * from final
