{#- Columns rise from left to right in every row, up to rounding; nulls pass. -#}
{% test ordered(model, columns) %}
select {{ columns | join(', ') }}
from {{ model }}
where
    {%- for low, high in zip(columns[:-1], columns[1:]) %}
    {{ 'or ' if not loop.first }}{{ low }} > {{ high }} + 1e-12
    {%- endfor %}
{% endtest %}
