{#- A mean a question, or null where one of them is not known: a mean over some would pass for that of all. -#}
{% macro whole_mean(value) -%}
    case when count({{ value }}) = count(*) then avg({{ value }}) end
{%- endmacro %}

{#- A sum in the same way. -#}
{% macro whole_sum(value) -%}
    case when count({{ value }}) = count(*) then sum({{ value }}) end
{%- endmacro %}

{#-
  How many times as many tokens would have been processed, had each row computed its whole prompt. Prompt and new tokens
  count alike; a new one takes longer, so device time scaled by this is at most what sharing saves.
-#}
{% macro unshared_ratio() -%}
    sum(prompt_tokens + new_tokens) / nullif(sum(prompt_tokens - shared_tokens + new_tokens), 0)
{%- endmacro %}

{#-
  The rows of a table of generations with column share_of_work: the part that each bears of what its partition's
  rows are told to have taken. Rows of several partitions may have one generation in common (a row cache serves all
  methods): all of these rows bear equal parts of it, so that sums are what was spent.
-#}
{% macro with_share_of_work(relation, table_name) -%}
    select
        generated.*,
        coalesce(shares.share_of_work, 1) as share_of_work
    from {{ relation }} as generated
    left join {{ ref('int_generation_shares') }} as shares
        on
            shares.table_name = '{{ table_name }}'
            and generated.model = shares.model
            and generated.generation_key = shares.generation_key
            {%- if table_name == 'answers' %}
            and generated.method = shares.method
            {%- endif %}
{%- endmacro %}
