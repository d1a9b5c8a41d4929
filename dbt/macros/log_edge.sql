{#-
  Edge number `index` of `n_bins` bins with equal width in the logarithm, from `low` to `high` (both > 0). The outer
  edges are exactly `low` and `high`, so that a filter by the edges returns the rows of the bin.
-#}
{% macro log_edge(low, high, index, n_bins) -%}
    case
        when {{ index }} <= 0 then {{ low }}
        when {{ index }} >= {{ n_bins }} then {{ high }}
        else least({{ high }}, greatest({{ low }}, pow(
            10.0, log10({{ low }}) + (log10({{ high }}) - log10({{ low }})) * ({{ index }}) / {{ n_bins }}
        )))
    end
{%- endmacro %}
