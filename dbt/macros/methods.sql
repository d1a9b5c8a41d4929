{#- The method of lake tables that hold no column of it: paraphrases and samples are asked from memory. -#}
{% macro method_of(kind) -%}
    (select methods.method from {{ ref('stg_study__methods') }} as methods where methods.kind = '{{ kind }}')
{%- endmacro %}
