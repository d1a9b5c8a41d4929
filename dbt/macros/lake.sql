{#- What staging has in common: only what the study declares is read, and generations come with the same columns. -#}

{#- Holds in the rows of a lake table whose `columns` the study declares; a prompt counts only where it `asks` so. -#}
{% macro is_declared(columns, asks=none) -%}
    {%- for column in columns %}
    {%- set declared = 'method' if column == 'retriever' else column %}
    {{ 'and ' if not loop.first }}{{ column }} in (
        select {{ declared }} from {{ ref('stg_study__' ~ declared ~ 's') }}
        {%- if column == 'prompt' and asks %} where list_contains(asks, '{{ asks }}'){% endif %}
    )
    {%- endfor %}
{%- endmacro %}

{#- Of a generation: the answer and its scores (GENERATION in core/tables/generation.py, the accounts left out). -#}
{% macro scored_columns() -%}
    prediction,
    raw_text,
    is_correct,
    is_correct_case_sensitive,
    is_correct_normalized,
    is_exact_match,
    token_f1,
    rouge_l
{%- endmacro %}

{#-
  Of a generation: what it took, and who made it (ACCOUNTS there). `attributed` cuts time and cost to the row's part of
  work that rows of other partitions have in common with it (column share_of_work); a service's request took its time
  whoever waits for it.
-#}
{% macro account_columns(attributed=false) -%}
    prompt_hash,
    prompt_tokens,
    shared_tokens,
    new_tokens,
    n_truncated_tokens,
    {% if attributed -%}
    latency_ms * if(device_seconds is null, 1, share_of_work) as latency_ms,
    batch_size,
    device_seconds * share_of_work as device_seconds,
    cost_usd * share_of_work as cost_usd,
    {%- else -%}
    latency_ms,
    batch_size,
    device_seconds,
    cost_usd,
    {%- endif %}
    engine,
    revision,
    dtype,
    quantisation,
    decoding,
    seed,
    is_reused,
    run_id,
    code_version
{%- endmacro %}

{#- What tells one generation from all others, however many rows it serves; null of what was imported. -#}
{% macro generation_key() -%}
    md5(generated_for || prompt_hash || coalesce(seed::varchar, ''))
{%- endmacro %}
