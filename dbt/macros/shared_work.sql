{#- A mean a question, or null where one of them is not known: a mean over some would pass for that of all. -#}
{% macro whole_mean(value) -%}
    case when count({{ value }}) = count(*) then avg({{ value }}) end
{%- endmacro %}

{#-
  How many times as many tokens would have been processed, had each row computed its whole prompt. Prompt and new tokens
  count alike; a new one takes longer, so device time scaled by this is at most what sharing saves.
-#}
{% macro unshared_ratio() -%}
    sum(prompt_tokens + new_tokens) / nullif(sum(prompt_tokens - shared_tokens + new_tokens), 0)
{%- endmacro %}
