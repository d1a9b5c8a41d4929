{#- The reason why macro `correlation` gives null: fewer than `minimum` `rows`, or a side that does not vary. -#}
{% macro why_undefined(x, y, x_name, y_name, rows, minimum=2) -%}
    case
        when count({{ x }}) < {{ minimum }} then 'too few {{ rows }}'
        when min({{ x }}) = max({{ x }}) then 'no variance of {{ x_name }}'
        when min({{ y }}) = max({{ y }}) then 'no variance of {{ y_name }}'
    end
{%- endmacro %}
