-- ParaRel: about which facts is a model consistent and wrong, the most popular subjects first?
select
    dataset,
    prompt,
    model,
    method,
    question_id,
    relation,
    subject,
    gold_answer,
    first_prediction,
    n_patterns,
    round(subject_popularity, 1) as subject_popularity
from {{ ref('fct_fact_agreement') }}
where n_patterns > 1 and n_predictions = 1 and n_correct = 0
order by subject_popularity desc nulls last, dataset asc, prompt asc, model asc, method asc, question_id asc
limit 100
