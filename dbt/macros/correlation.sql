{#- Pearson correlation; null with fewer than `minimum` rows or if a side does not vary. -#}
{% macro correlation(x, y, minimum=2) -%}
    case
        when count({{ x }}) >= {{ minimum }} and min({{ x }}) < max({{ x }}) and min({{ y }}) < max({{ y }})
            then corr({{ x }}, {{ y }})
    end
{%- endmacro %}

{#-
  Rank from 1 within `partition`; ties share the mean of their ranks, as Spearman's correlation needs it. Both windows
  have the same order, so DuckDB sorts once.
-#}
{% macro average_rank(value, partition) -%}
    rank() over (partition by {{ partition }} order by {{ value }})
    + (count(*) over (partition by {{ partition }} order by {{ value }} range between current row and current row) - 1) / 2.0
{%- endmacro %}
