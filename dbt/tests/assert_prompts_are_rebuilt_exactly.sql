{{ config(severity='warn', meta={'dagster': {'ref': {'name': 'fct_prompts'}}}) }}

-- Prompts that differ from those the models read. A question or passage has changed, and its partition is stale.
select
    table_name,
    dataset,
    question_id,
    model,
    method,
    prompt
from {{ ref('fct_prompts') }}
where not is_exact
