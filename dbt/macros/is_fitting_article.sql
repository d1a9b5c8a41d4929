{#- Whether a pattern's a or an goes with a label. Neither "a apple" nor "an pear" can be right, whatever the model knows. -#}
{% macro is_fitting_article(article, label) -%}
    {{ article }} is null
        or ({{ article }} = 'an') = (left(strip_accents(lower({{ label }})), 1) in ('a', 'e', 'i', 'o', 'u'))
{%- endmacro %}
