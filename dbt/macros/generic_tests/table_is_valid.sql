{#-
  The rules of one table, tested by one query: one row per rule that does not hold, with the number of rows that break
  it and one of them. One node tests all rules, because dbt needs more time for a node than DuckDB for its query.

  - key: columns whose values no two rows share; null counts as a value
  - foreign_keys: {column: table}, or {column: table.column} where that column has another name; nulls pass
  - ranges: {column: [low]}, [low, high] or [null, high]; nulls pass, NaN does not
  - ordered: lists of columns whose values rise from left to right, up to rounding; nulls pass
  - expressions: conditions in SQL; null passes

  Of every table that describes its columns, as all marts do, some rules are tested without being named: the ends of an
  interval (columns that end in ci_low, agreement_low and the like) differ, no p value (columns of tests) is 0, and, where
  `ranges` does not say more, no count (n, n_…) is negative, and shares (share…, accuracy…, recall_…) are in [0, 1].
-#}
{% test table_is_valid(model, key=[], foreign_keys={}, ranges={}, ordered=[], expressions=[]) %}
{%- set rules = [] -%}
{%- set limits = dict(ranges) -%}
{%- for name in described_columns(model) -%}
    {%- if name not in ranges and not name.endswith(('_low', '_high')) -%}
        {%- if name == 'n' or name.startswith('n_') -%}
            {%- do limits.update({name: [0]}) -%}
        {%- elif name.startswith(('share', 'accuracy', 'recall_')) -%}
            {%- do limits.update({name: [0, 1]}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if name.endswith(('ci_low', 'agreement_low', 'correlation_low', 'similarity_low', 'agreeing_low')) -%}
        {%- set high = name[:-3] ~ 'high' -%}
        {%- do rules.append((name ~ ' < ' ~ high, high ~ ' - ' ~ name ~ ' <= 1e-12', [name, high])) -%}
    {%- elif name.endswith(('p_value', 'p_holm', 'p_mcnemar')) -%}
        {%- do rules.append((name ~ ' > 0', name ~ ' <= 0', [name])) -%}
    {%- endif -%}
{%- endfor -%}
{%- for column, range in limits.items() -%}
    {%- do rules.append((column ~ in_words(*range), is_outside(column, *range), [column])) -%}
{%- endfor -%}
{%- for columns in ordered -%}
    {%- for low, high in zip(columns[:-1], columns[1:]) -%}
        {%- do rules.append((low ~ ' <= ' ~ high, low ~ ' > ' ~ high ~ ' + 1e-12', [low, high])) -%}
    {%- endfor -%}
{%- endfor -%}
{%- for expression in expressions -%}
    {%- do rules.append((expression | replace("'", "''"), 'not (' ~ expression ~ ')', [])) -%}
{%- endfor -%}
with
{%- if foreign_keys %}
keys as materialized (
    select {{ foreign_keys.keys() | join(', ') }}, count(*) as n_rows
    from {{ model }}
    group by all
),
{%- endif %}
broken (rule, n_rows, example) as (
    select null::varchar, null::bigint, null::varchar
    {%- if key %}
    union all
    select 'unique ({{ key | join(", ") }})', sum(n_rows), min({{ values_of(key) }})
    from (select {{ key | join(', ') }}, count(*) as n_rows from {{ model }} group by all having count(*) > 1)
    {%- endif %}
    {%- for column, to in foreign_keys.items() %}
    {%- set table, _, field = to.partition('.') %}
    union all
    select '{{ column }} in {{ to }}', sum(keys.n_rows), min({{ values_of([column]) }})
    from keys
    anti join {{ ref(table) }} as parent on keys.{{ column }} = parent.{{ field or column }}
    where keys.{{ column }} is not null
    {%- endfor %}
    {%- if rules %}
    union all
    select found.rule, count(*), min(found.example)
    from (
        select unnest([
            {%- for rule, is_broken, columns in rules %}
            case when {{ is_broken }} then struct_pack(rule := '{{ rule }}', example := {{ values_of((key + columns) | unique) }}) end
            {{- ',' if not loop.last }}
            {%- endfor %}
        ]) as found
        from {{ model }}
        where {% for _, is_broken, _ in rules %}{{ 'or ' if not loop.first }}{{ is_broken }} {% endfor %}
    )
    group by found.rule
    {%- endif %}
)
select *
from broken
where n_rows > 0 and rule is not null
{% endtest %}

{#- The names of the columns that the yml of a model has. -#}
{% macro described_columns(model) -%}
    {%- set names = [] -%}
    {%- if execute -%}
        {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.name == model.identifier -%}
            {%- do names.extend(node.columns) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(names) }}
{%- endmacro %}

{#- NaN is greater than any number, so without an upper bound it needs its own condition. -#}
{% macro is_outside(column, low, high=none) -%}
    (isnan({{ column }}::double)
    {%- if low is not none %} or {{ column }} < {{ low }}{% endif %}
    {%- if high is not none %} or {{ column }} > {{ high }}{% endif %})
{%- endmacro %}

{% macro in_words(low, high=none) -%}
    {{ ' <= ' ~ high if low is none else ' >= ' ~ low if high is none else ' in [' ~ low ~ ', ' ~ high ~ ']' }}
{%- endmacro %}

{#- The values of columns in one row, as text. -#}
{% macro values_of(columns) -%}
    {%- set pairs = [] -%}
    {%- for column in columns -%}{%- do pairs.append("'" ~ column ~ "': " ~ column) -%}{%- endfor -%}
    {{ '{' ~ pairs | join(', ') ~ '}::varchar' if pairs else 'null::varchar' }}
{%- endmacro %}
