{{ config(severity='warn', meta={'dagster': {'ref': {'name': 'fct_answers'}}}) }}

-- An answer that read a passage which is no longer retrieved is older than its index.
select
    dataset,
    question_id,
    model,
    method,
    passage_id
from {{ ref('int_answers') }}
where passage_id is not null and has_answer is null
