{#-
  Rows of a table under the measure and key by which paper_cells names them. `declines`: the table counts declined answers.
  `value` may aggregate: the other columns group it.
-#}
{% macro paper_measure(
    table, measure, key, n, value, ci=none, method='method', model='model', prompt='prompt', only='true', declines=false
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
        {%- for name in ['share_declined', 'accuracy_attempted', 'accuracy_attempted_ci_low', 'accuracy_attempted_ci_high'] %}
        {{ name if declines else 'null::double as ' ~ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ ref(table) }}
    where {{ only }}
    group by all
{% endmacro %}
