{#-
  A lake table should have each key once. If files have a key several times with the same text, one copy is kept. If the
  texts differ, none is kept, because it is not known which is right. fct_lake_reconciliation counts both cases.
-#}

{#- The keys that occur several times, with their number of rows, and whether all these rows have the same text. -#}
{% macro doubled_keys(relation, key, text='prediction') -%}
    select
        {{ key }},
        count(*) as n,
        min({{ text }}) = max({{ text }}) as is_copied
    from {{ relation }}
    group by {{ key }}
    having count(*) > 1
{%- endmacro %}

{% macro without_doubles(relation, key, text='prediction') -%}
    select held.*
    from {{ relation }} as held
    left join ({{ doubled_keys(relation, key, text) }}) as doubled using ({{ key }})
    where doubled.n is null
    union all by name
    select * from (
        select distinct on ({{ key }}) held.*
        from {{ relation }} as held
        inner join ({{ doubled_keys(relation, key, text) }}) as doubled using ({{ key }})
        where doubled.is_copied
        order by {{ key }}, run_id
    )
{%- endmacro %}
