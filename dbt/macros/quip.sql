{#-
  The QUIP-Score of the first `n` 25-grams of a text, of which it has at least so many. `firsts`: the gram with which each
  quoted span begins, from 0; `grams`: the grams of each span.
-#}
{% macro quip_of_first(firsts, grams, n) -%}
    coalesce(list_sum(list_transform(
        range(1, len({{ grams }}) + 1),
        span -> greatest(0, least({{ grams }}[span], {{ n }} - {{ firsts }}[span]))
    )), 0) / {{ n }}
{%- endmacro %}
