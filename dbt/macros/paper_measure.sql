{#-
  Rows of a table under the measure and key by which paper_cells names them. `more`: other columns of the
  table, with a comma before each. `value` may aggregate: the other columns group it.
-#}
{% macro paper_measure(
    table, measure, key, n, value, ci=none, method='method', model='model', prompt='prompt', only='true', more=''
) %}
    select
        '{{ measure }}' as measure,
        {{ key }} as paper_key,
        dataset,
        {{ prompt }} as prompt,
        {{ model }} as model,
        {{ method }} as method,
        {{ n }}::bigint as n,
        {{ value ~ ' as value' ~ more }},
        {{ ci ~ '_low' if ci else 'null' }} as ci_low,
        {{ ci ~ '_high' if ci else 'null' }} as ci_high
    from {{ ref(table) }}
    where {{ only }}
    group by all
{% endmacro %}
