{#-
  The QUIP-Score of the first `n` 25-grams of a text, of which it has at least so many. `text`: a row with its spans.
-#}
{% macro quip_of_first(text, n) -%}
    coalesce(list_sum(list_transform(
        range(1, len({{ text }}.span_grams) + 1),
        span -> greatest(0, least({{ text }}.span_grams[span], {{ n }} - {{ text }}.span_first_grams[span]))
    )), 0) / {{ n }}
{%- endmacro %}
