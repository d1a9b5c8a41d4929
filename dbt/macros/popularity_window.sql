{#- The measure of popularity and its window: the months to the one that the study pins, or to the latest in the lake. -#}
{% macro popularity_window() -%}
    select
        declared.measure,
        declared.n_months,
        strftime(
            strptime(coalesce(declared.last_month, latest.month) || '-01', '%Y-%m-%d')
            - to_months(declared.n_months - 1), '%Y-%m'
        ) as first_month,
        coalesce(declared.last_month, latest.month) as last_month,
        declared.redirects,
        declared.agent
    from {{ ref('stg_study__popularity_windows') }} as declared
    cross join (select max(month) as month from {{ ref('stg_wikimedia__page_views') }}) as latest
{%- endmacro %}
