{{ config(meta={'dagster': {'ref': {'name': 'fct_answers'}}}) }}

-- Answers to questions that the lake no longer holds are stale: their partition must be materialised again.
select
    answers.dataset,
    answers.question_id,
    answers.model,
    answers.method
from {{ ref('stg_generation__answers') }} as answers
left join {{ ref('stg_questions__questions') }} as questions
    on answers.dataset = questions.dataset and answers.question_id = questions.question_id
where questions.question_id is null
