{#-
  A lake table should hold a key once. Where files hold it several times with one and the same text, one copy is kept;
  where they hold different texts, none is, since nobody knows which is right. fct_lake_reconciliation counts both.
-#}

{#- The keys that occur several times, with their number of rows, and whether all of these hold the same text. -#}
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
