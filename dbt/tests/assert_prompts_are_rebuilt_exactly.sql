{{ config(severity='warn', meta={'dagster': {'ref': {'name': 'fct_prompts'}}}) }}

-- A prompt that is not the one given: a question or passage has changed since, and its partition is stale.
select
    table_name,
    dataset,
    question_id,
    model,
    method,
    prompt
from {{ ref('fct_prompts') }}
where not is_exact
