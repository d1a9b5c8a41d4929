{#-
  Columns, types and NOT NULL of a table with a contract, in place of dbt's macro of this name. A column is not null
  unless `nullable` under `config.meta.longtail` names it, so that no yml repeats the constraint for each column. An interval
  may always be null: answers about a single subject have none.
-#}
{% macro table_columns_and_constraints() -%}
    {%- set nullable = config.get('meta', {}).get('longtail', {}).get('nullable', []) -%}
    {%- for name in nullable if name not in model.columns -%}
        {%- do exceptions.raise_compiler_error(model.name ~ ": `nullable` names " ~ name ~ ", which is not a column") -%}
    {%- endfor -%}
    (
    {%- for column in model.columns.values() %}
        {{ column.name }} {{ column.data_type }} {{- ' not null' if not (column.name in nullable or column.name.endswith(('ci_low', 'ci_high', 'deff'))) }} {{- ',' if not loop.last }}
    {%- endfor %}
    )
{%- endmacro %}
