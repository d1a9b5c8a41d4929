{#- Staging models read only what the study declares. All generations have the same columns. -#}

{#- True for rows of a lake table whose `columns` the study declares. A prompt counts only if its `generations` contain this one. -#}
{% macro is_declared(columns, generations=none) -%}
    {%- for column in columns %}
    {%- set declared = 'method' if column == 'retriever' else column %}
    {%- set table = 'sweep_settings' if column == 'tuned_model' else declared ~ 's' %}
    {{ 'and ' if not loop.first }}{{ column }} in (
        select {{ declared }} from {{ source('lake', table) }}
        {%- if column == 'prompt' and generations %} where list_contains(generations, '{{ generations }}'){% endif %}
        {%- if declared == 'method' %} where asks_questions{% endif %}
    )
    {%- endfor %}
{%- endmacro %}

{#- The answer of a generation and its scores (`generation` in longtail/tables/lake.yaml, without the accounts). -#}
{% macro scored_columns() -%}
    {{ trimmed('prediction') }} as prediction,
    raw_text,
    is_declined,
    is_correct,
    is_correct_case_sensitive,
    is_correct_normalized,
    is_exact_match,
    token_f1,
    rouge_l,
    confidence_tokens,
    sum_log_probability,
    least_probability,
    first_probability,
    first_margin,
    mean_entropy
{%- endmacro %}

{#- A text without white space at its ends. Answers mostly begin with a space; in the lake they are what was scored. -#}
{% macro trimmed(text) -%}
    regexp_replace({{ text }}, '^[\s\pZ]+|[\s\pZ]+$', '', 'g')
{%- endmacro %}

{#- How sure the model was of an answer (SPEC §11), from the scored columns, those of `relation` if a query reads several. -#}
{% macro confidence(relation=none) -%}
    {%- set of = relation ~ '.' if relation else '' -%}
    exp({{ of }}sum_log_probability / {{ of }}confidence_tokens)
{%- endmacro %}

{% macro confidence_columns() -%}
    sum_log_probability / confidence_tokens as mean_log_probability,
    {{ confidence() }} as confidence
{%- endmacro %}

{#-
  The time and cost of a generation, and what computed it (`accounts` in longtail/tables/lake.yaml). Time and cost are
  reduced to this row's part of the work that it shares with rows of other partitions (column share_of_work). The time of
  a request to a service is never divided.
-#}
{% macro account_columns() -%}
    prompt_hash,
    prompt_tokens,
    shared_tokens,
    new_tokens,
    reasoning_tokens,
    n_truncated_tokens,
    latency_ms * if(device_seconds is null, 1, share_of_work) as latency_ms,
    batch_size,
    device_seconds * share_of_work as device_seconds,
    cost_usd * share_of_work as cost_usd,
    reasoning_usd * share_of_work as reasoning_usd,
    engine,
    revision,
    served_model,
    dtype,
    quantisation,
    decoding,
    seed,
    is_reused,
    run_id,
    code_version
{%- endmacro %}

{#- The key of one generation, which may serve several rows. Null for imported answers. -#}
{% macro generation_key() -%}
    md5(generated_for || prompt_hash || coalesce(seed::varchar, ''))
{%- endmacro %}
