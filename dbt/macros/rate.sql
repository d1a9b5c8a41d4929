{#- A share with its Wilson interval: columns `name`, `name_ci_low`, `name_ci_high`; null without rows. -#}
{% macro rate(n_successes, n, name) -%}
    {{ n_successes }} / nullif({{ n }}, 0) as {{ name }},
    {{ wilson_low(n_successes, n) }} as {{ name }}_ci_low,
    {{ wilson_high(n_successes, n) }} as {{ name }}_ci_high
{%- endmacro %}
