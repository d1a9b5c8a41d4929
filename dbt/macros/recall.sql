{#-
  recall@1, @5, @20 and @k with their intervals, by DPR's rule ('') and by PopQA's: `recall_counts` over the rows of
  int_first_hits of one subject, then `recall_sums` over subjects, then `recall_rates`. A missing passage counts as a miss. k is
  the largest rank of the retriever (`n_ranks`); recall@5 and @20 are null where k is smaller.
-#}
{% macro recall_counts(rules) -%}
    count(*) as n,
    max(n_ranks) as k
    {%- for rule in rules %}{% for at in [1, 5, 20, 'k'] -%}
    , {{ 'count(first_rank' ~ rule ~ ')' if at == 'k' else 'count(*) filter (where first_rank' ~ rule ~ ' <= ' ~ at ~ ')' }}
        as hits_at_{{ at }}{{ rule }}
    {%- endfor %}{% endfor %}
{%- endmacro %}

{% macro recall_sums(rules) -%}
    sum(n)::bigint as n,
    max(k) as k
    {%- for rule in rules %}{% for at in [1, 5, 20, 'k'] -%}
    , {% if at in (5, 20) %}case when max(k) >= {{ at }} then {% endif -%}
    {{ subject_sums('hits_at_' ~ at ~ rule) }} {{ 'end' if at in (5, 20) }} as at_{{ at }}{{ rule }}
    {%- endfor %}{% endfor %}
{%- endmacro %}

{% macro recall_rates(rules) -%}
    n,
    {{ subjects_and_deff('at_1') }},
    k
    {%- for rule in rules %}{% for at in [1, 5, 20, 'k'] -%}
    , {{ rate('at_' ~ at ~ rule, 'recall_at_' ~ at ~ rule) }}
    {%- endfor %}{% endfor %}
{%- endmacro %}
