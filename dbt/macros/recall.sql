{#- recall@1, @5, @20 and @k with their Wilson intervals, by DPR's rule ('') and by PopQA's, over rows of int_first_hits. A
missing passage counts as a miss. k is the largest rank of the retriever (`n_ranks`); recall@5 and @20 are null where k is smaller. -#}
{% macro recall_rates(rules=['', '_popqa']) -%}
    max(n_ranks) as k,
    {%- for rule in rules %}
    {%- for at in [1, 5, 20] %}
    {%- set hits = 'count(*) filter (where first_rank' ~ rule ~ ' <= ' ~ at ~ ')' %}
    {%- set hits = hits if at == 1 else 'case when max(n_ranks) >= ' ~ at ~ ' then ' ~ hits ~ ' end' %}
    {{ rate(hits, 'count(*)', 'recall_at_' ~ at ~ rule) }},
    {%- endfor %}
    {{ rate('count(first_rank' ~ rule ~ ')', 'count(*)', 'recall_at_k' ~ rule) }}{{ ',' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
