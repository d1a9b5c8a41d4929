{#- Pearson correlation; null under `minimum` rows or where either side does not vary. -#}
{% macro correlation(x, y, minimum=2) -%}
    case
        when count({{ x }}) >= {{ minimum }} and min({{ x }}) < max({{ x }}) and min({{ y }}) < max({{ y }})
            then corr({{ x }}, {{ y }})
    end
{%- endmacro %}

{#-
  Rank from 1 within `partition`, ties sharing the mean of their ranks: what Spearman's correlation is made of. Both
  windows have one order, and so one sort.
-#}
{% macro average_rank(value, partition) -%}
    rank() over (partition by {{ partition }} order by {{ value }})
    + (count(*) over (partition by {{ partition }} order by {{ value }} range between current row and current row) - 1) / 2.0
{%- endmacro %}
