{#- What may change from one pattern to another: the values of column changes of the lake's table patterns. -#}
{% macro changes_of_patterns() -%}
    {{ return(['syntactic', 'lexical', 'both', 'determiner', 'no_change']) }}
{%- endmacro %}
