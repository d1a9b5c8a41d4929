{#-
  A model's table or view, with its comments, takes the place of the last one in one transaction. dbt-duckdb renames, drops and
  comments in several steps, each of which costs as much as a small model: a quarter of the time of a small build. Models
  have no hooks, grants or indexes, so that none are looked for.
-#}
{% materialization table, adapter="duckdb", supported_languages=["sql", "python"] %}
    {%- set relation = this.incorporate(type="table") -%}
    {%- set new = make_intermediate_relation(relation) -%}
    {#- A model in Python may read its last table, and its code begins no transaction: a killed run leaves what it made. -#}
    {%- if model.language == "python" -%}
        {%- call statement("drop_unfinished", auto_begin=False) -%} drop table if exists {{ new }} {%- endcall -%}
    {%- endif -%}
    {%- call statement("main", language=model.language) -%}
        {{- create_table_as(false, new, compiled_code, model.language) -}}
    {%- endcall -%}
    {%- call statement("replace") -%}
        {{ drop_last() }}
        alter table {{ new }} rename to {{ adapter.quote(relation.identifier) }};
        {{ comments_on(relation) }}
    {%- endcall -%}
    {%- do adapter.commit() -%}
    {{ return({"relations": [relation]}) }}
{% endmaterialization %}

{% materialization view, adapter="duckdb" %}
    {%- set relation = this.incorporate(type="view") -%}
    {%- call statement("main") -%}
        {{ drop_last() }}
        {{- create_view_as(relation, compiled_code) -}}
        {{ comments_on(relation) }}
    {%- endcall -%}
    {%- do adapter.commit() -%}
    {{ return({"relations": [relation]}) }}
{% endmaterialization %}

{% macro drop_last() -%}
    {%- set last = load_cached_relation(this) -%}
    {%- if last is not none -%} drop {{ last.type }} if exists {{ last }}; {%- endif -%}
{%- endmacro %}

{#- The descriptions of a model and of its columns. A described column that the model does not have is an error. -#}
{% macro comments_on(relation) -%}
    comment on {{ relation.type }} {{ relation }} is '{{ model.description | replace("'", "''") }}';
    {%- for name, column in model.columns.items() %}
    comment on column {{ relation }}.{{ adapter.quote(name) }} is '{{ column.description | replace("'", "''") }}';
    {%- endfor %}
{%- endmacro %}
