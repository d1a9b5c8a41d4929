{#-
  Holm's correction in two steps over the rows of `group`: `holm_stepped` in one select, `holm` over its column in the next.
  The k-th smallest of m p values is multiplied by m - k + 1, and is never below the one before it. Ties share the greatest
  value, because their order is arbitrary.
-#}
{% macro holm_stepped(p_value, group) -%}
    least(1.0, {{ p_value }} * (
        count({{ p_value }}) over (partition by {{ group }})
        - row_number() over (partition by {{ group }} order by {{ p_value }} nulls last) + 1
    ))
{%- endmacro %}

{% macro holm(p_value, p_stepped, group) -%}
    case
        when {{ p_value }} is not null
            then max({{ p_stepped }}) over (partition by {{ group }} order by {{ p_value }} nulls last)  -- ties included
    end
{%- endmacro %}
