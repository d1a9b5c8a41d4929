{#- The parts of a text from each of `starts` to the same place of `ends`, in characters from 0. -#}
{% macro parts_of(text, starts, ends) -%}
    list_transform(
        range(len({{ starts }})),
        lambda i: substring({{ text }}, {{ starts }}[i + 1] + 1, {{ ends }}[i + 1] - {{ starts }}[i + 1])
    )
{%- endmacro %}
