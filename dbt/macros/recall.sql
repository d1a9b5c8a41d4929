{#- recall@1 and recall@5 with their Wilson intervals, by DPR's and by PopQA's rule, over rows of int_first_hits. A missing
passage counts as a miss. recall@5 is null if the retriever gave no question five passages (`n_ranks`). -#}
{% macro recall_rates() -%}
    {%- for rule in ['', '_popqa'] %}
    {%- set at_1 = 'count(*) filter (where first_rank' ~ rule ~ ' <= 1)' %}
    {%- set at_5 = 'case when max(n_ranks) >= 5 then count(*) filter (where first_rank' ~ rule ~ ' <= 5) end' %}
    {{ rate(at_1, 'count(*)', 'recall_at_1' ~ rule) }},
    {{ rate(at_5, 'count(*)', 'recall_at_5' ~ rule) }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
