{#- The method of a kind, for lake tables without a column for it: paraphrases and samples are asked from memory. -#}
{% macro method_of(kind) -%}
    (select methods.method from {{ ref('stg_study__methods') }} as methods where methods.kind = '{{ kind }}')
{%- endmacro %}
