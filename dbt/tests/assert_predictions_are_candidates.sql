{{ config(meta={'dagster': {'ref': {'name': 'fct_candidate_answers'}}}) }}

-- A model chooses among the candidates of the lake. Another prediction is stale: materialise its partition again.
select
    answers.dataset,
    answers.question_id,
    answers.model,
    answers.prediction
from {{ ref('fct_candidate_answers') }} as answers
left join {{ ref('stg_questions__candidates') }} as candidates
    on
        answers.dataset = candidates.dataset
        and answers.relation = candidates.relation
        and answers.prediction = candidates.candidate
where candidates.candidate is null
