{#-
  The mean per question; null if a value is unknown, because a mean over the others would look like the mean of all.
-#}
{% macro whole_mean(value) -%}
    case when count({{ value }}) = count(*) then avg({{ value }}) end
{%- endmacro %}

{#- The sum; null if a value is unknown. -#}
{% macro whole_sum(value) -%}
    case when count({{ value }}) = count(*) then sum({{ value }}) end
{%- endmacro %}

{#-
  The factor by which more tokens would have been processed if each row had computed its whole prompt. Prompt tokens and
  new tokens count alike. New tokens take longer, so device time multiplied by this factor is an upper bound.
-#}
{% macro unshared_ratio() -%}
    sum(prompt_tokens + new_tokens) / nullif(sum(prompt_tokens - shared_tokens + new_tokens), 0)
{%- endmacro %}

{#-
  The rows of a table of generations with column share_of_work: the part of the recorded time and cost that counts for
  the row. Rows of several partitions may share one generation (the row cache serves all methods). Each of these rows
  gets an equal part of it, so that sums are what was spent.
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
            {%- if table_name in ('answers', 'candidate_answers') %}
            and generated.method = shares.method
            {%- endif %}
{%- endmacro %}

{#-
  Time, cost or tokens of an answer with those of its background text, whichever prompt the text was first written for;
  null if the text was left out (the lake has several with its key). `own`, `background`: the parts that count.
-#}
{% macro with_background(account, own='1', background='1') -%}
    answers.{{ account }} * {{ own }} + if(methods.kind = 'background', generated_passages.{{ account }}, 0) * {{ background }}
{%- endmacro %}
