{#-
  Every value of a column in `to` occurs in the model given for it, in the field of the same name or the one given in
  `fields`; nulls pass. One node and one scan test all keys of a model. A failing row names the column.
-#}
{% test foreign_keys(model, to, fields={}) %}
with keys as materialized (
    select {{ to.keys() | join(', ') }}, count(*) as n_rows
    from {{ model }}
    group by all
)
{% for column, parent in to.items() %}
{{- 'union all' if not loop.first }}
select '{{ column }}' as column_name, keys.{{ column }}::varchar as value, sum(keys.n_rows) as n_rows
from keys
anti join {{ parent }} as parent on keys.{{ column }} = parent.{{ fields.get(column, column) }}
where keys.{{ column }} is not null
group by all
{% endfor %}
{% endtest %}
