{#-
  A model's table or view, with its comments, takes the place of the last one in one transaction. dbt-duckdb builds it under
  another name, renames it, and comments each relation in several steps, which takes a quarter of the time of a small build.
  Models have no hooks, grants or indexes, so that none are looked for.
-#}
{% materialization table, adapter="duckdb", supported_languages=["sql", "python"] %}
    {%- set relation = this.incorporate(type="table") -%}
    {%- do drop_last(load_cached_relation(this)) -%}
    {%- call statement("main", language=model.language) -%}
        {{- create_table_as(false, relation, compiled_code, model.language) -}}
    {%- endcall -%}
    {%- do write_comments(relation) -%}
    {%- do adapter.commit() -%}
    {{ return({"relations": [relation]}) }}
{% endmaterialization %}

{% materialization view, adapter="duckdb" %}
    {%- set relation = this.incorporate(type="view") -%}
    {%- do drop_last(load_cached_relation(this)) -%}
    {%- call statement("main") -%}
        {{- create_view_as(relation, compiled_code) -}}
    {%- endcall -%}
    {%- do write_comments(relation) -%}
    {%- do adapter.commit() -%}
    {{ return({"relations": [relation]}) }}
{% endmaterialization %}

{% macro drop_last(relation) -%}
    {%- if relation is not none -%}
        {%- call statement("drop_last") -%} drop {{ relation.type }} if exists {{ relation }} {%- endcall -%}
    {%- endif -%}
{%- endmacro %}

{#- The descriptions of a model and of its columns. A described column that the model does not have is an error. -#}
{% macro write_comments(relation) -%}
    {%- if config.persist_relation_docs() -%}
        {%- call statement("comments") -%}
            comment on {{ relation.type }} {{ relation }} is '{{ model.description | replace("'", "''") }}';
            {%- for name, column in model.columns.items() %}
            comment on column {{ relation }}."{{ name }}" is '{{ column.description | replace("'", "''") }}';
            {%- endfor %}
        {%- endcall -%}
    {%- endif -%}
{%- endmacro %}
