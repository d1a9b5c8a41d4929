{#- Whether a row of stg_study__grounding_intervals is the interval of a measure over as many questions as `gains` has. -#}
{% macro is_interval_of(intervals, measure, n) -%}
    gains.dataset = {{ intervals }}.dataset
        and gains.model = {{ intervals }}.model
        and gains.method = {{ intervals }}.method
        and gains.grounding_prompt = {{ intervals }}.grounding_prompt
        and gains.{{ n }} = {{ intervals }}.n_paired
        and {{ intervals }}.measure = '{{ measure }}'
{%- endmacro %}
