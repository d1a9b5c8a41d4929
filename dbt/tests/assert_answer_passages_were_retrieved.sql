{{ config(severity='warn', meta={'dagster': {'ref': {'name': 'fct_answers'}}}) }}

-- An answer is older than its index if the index no longer retrieves its passage.
select
    dataset,
    question_id,
    model,
    method,
    passage_id
from {{ ref('int_answers') }}
where passage_id is not null and has_answer is null
