{#-
  Values are in the range of their column, [low], [low, high] or [null, high]; nulls pass, NaN does not. One node and
  one scan test all columns of a model, because dbt needs more time for a node than DuckDB for its query. A failing row
  names the column.
-#}
{% test in_ranges(model, columns) %}
select outside.column_name, outside.value, count(*) as n_rows
from (
    select unnest([
        {%- for column, range in columns.items() %}
        case
            when {{ is_outside(column, *range) }}
                then struct_pack(column_name := '{{ column }}', value := {{ column }}::varchar)
        end{{ ',' if not loop.last }}
        {%- endfor %}
    ]) as outside
    from {{ model }}
    where
        {%- for column, range in columns.items() %}
        {{ 'or ' if not loop.first }}{{ is_outside(column, *range) }}
        {%- endfor %}
)
where outside is not null
group by all
{% endtest %}

{#- NaN is greater than any number, so without an upper bound it needs its own condition. -#}
{% macro is_outside(column, low, high=none) -%}
    (isnan({{ column }}::double)
    {%- if low is not none %} or {{ column }} < {{ low }}{% endif %}
    {%- if high is not none %} or {{ column }} > {{ high }}{% endif %})
{%- endmacro %}
