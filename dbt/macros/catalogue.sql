{#- The yml files of the marts as SQL literals, for model catalogue. -#}

{#- The marts of the project, by name. -#}
{% macro marts() -%}
    {%- set found = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.config.schema == 'marts' -%}
        {%- do found.append(node) -%}
    {%- endfor -%}
    {{ return(found | sort(attribute='name')) }}
{%- endmacro %}

{#- The lake tables that a model is computed from, directly or through other models. -#}
{% macro lake_tables(node) -%}
    {%- set reached, tables = [node.unique_id], [] -%}
    {%- for unique_id in reached -%}
        {#- The list grows while it is read, so the loop also visits the nodes that are appended here. -#}
        {%- for parent in graph.nodes.get(unique_id, {}).get('depends_on', {}).get('nodes', []) -%}
            {%- if parent not in reached -%}{%- do reached.append(parent) -%}{%- endif -%}
        {%- endfor -%}
        {%- if unique_id in graph.sources -%}{%- do tables.append(graph.sources[unique_id].name) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(tables | sort) }}
{%- endmacro %}

{#- A text literal, on one line; null for a text that is missing or empty. -#}
{% macro text_literal(text) -%}
    {%- if text -%}'{{ text.split() | join(' ') | replace("'", "''") }}'{%- else -%}null{%- endif -%}
{%- endmacro %}

{#- One row of literals per mart, each followed by a comma. No rows while dbt parses, because there is no graph yet. -#}
{% macro catalogue_rows() -%}
    {%- if execute and graph is defined -%}
    {%- set keys = {} -%}
    {%- for test in graph.nodes.values() if test.test_metadata and test.test_metadata.kwargs.key -%}
        {%- do keys.update({test.attached_node: test.test_metadata.kwargs.key}) -%}
    {%- endfor -%}
    {%- for mart in marts() %}
    {%- set meta = mart.config.get('meta', {}).get('longtail', {}) %}
    (
        '{{ mart.name }}',
        '{{ mart.fqn[-2] }}',
        '{{ "view" if mart.config.materialized == "view" else "table" }}',
        {{ text_literal(keys.get(mart.unique_id, []) | join(', ')) }},
        {{ text_literal(meta.get('source')) }},
        {{ text_literal(mart.description) }},
        {{ text_literal(meta.get('example')) }},
        {{ mart.columns | length }},
        {{ lake_tables(mart) }}
    ),
    {%- endfor %}
    {%- endif %}
{%- endmacro %}
