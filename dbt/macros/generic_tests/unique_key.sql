{#- No two rows share a key of several columns; nulls count as a value. -#}
{% test unique_key(model, columns) %}
select {{ columns | join(', ') }}, count(*) as n_rows
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
