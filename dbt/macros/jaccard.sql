{#- What two lists share, as a part of what either has; null if both are empty. -#}
{% macro jaccard(one, other) -%}
    len(list_intersect({{ one }}, {{ other }})) / nullif(len(list_distinct({{ one }} || {{ other }})), 0)
{%- endmacro %}
