{#- Rows of a table under the measure and key by which paper_cells names them. -#}
{% macro paper_measure(
    table, measure, key, n, value, ci=none, method='method', model='model', prompt='prompt', only='true', declined='null'
) %}
    select
        '{{ measure }}' as measure,
        {{ key }} as paper_key,
        dataset,
        {{ prompt }} as prompt,
        {{ model }} as model,
        {{ method }} as method,
        {{ n }}::bigint as n,
        {{ value }} as value,
        {{ ci ~ '_low' if ci else 'null' }} as ci_low,
        {{ ci ~ '_high' if ci else 'null' }} as ci_high,
        {{ declined }}::double as share_declined
    from {{ ref(table) }}
    where {{ only }}
{% endmacro %}
