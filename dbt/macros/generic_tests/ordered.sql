{#-
  In every row the columns of each chain rise from left to right, up to rounding; nulls pass. A failing row names both.
-#}
{% test ordered(model, chains) %}
{%- set pairs = [] %}
{%- for chain in chains %}{% do pairs.extend(zip(chain[:-1], chain[1:])) %}{% endfor %}
select falling.*, count(*) as n_rows
from (
    select unnest([
        {%- for low, high in pairs %}
        case
            when {{ low }} > {{ high }} + 1e-12
                then struct_pack(
                    low_column := '{{ low }}', low := {{ low }}::varchar,
                    high_column := '{{ high }}', high := {{ high }}::varchar
                )
        end{{ ',' if not loop.last }}
        {%- endfor %}
    ]) as falling
    from {{ model }}
    where
        {%- for low, high in pairs %}
        {{ 'or ' if not loop.first }}{{ low }} > {{ high }} + 1e-12
        {%- endfor %}
)
where falling is not null
group by all
{% endtest %}
