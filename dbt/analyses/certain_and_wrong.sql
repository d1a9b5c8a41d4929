-- PopQA-TP, Table 4: for which questions do the sampled answers agree although they are wrong? The model is certain of
-- a mistake.
select
    consistency.dataset,
    consistency.prompt,
    consistency.model,
    consistency.question_id,
    questions.question,
    questions.gold_answers,
    round(consistency.cert, 3) as cert,
    list(distinct trim(samples.prediction) order by trim(samples.prediction)) as sampled_answers,
    questions.subject_popularity
from {{ ref('fct_question_consistency') }} as consistency
inner join {{ ref('dim_questions') }} as questions using (dataset, question_id)
inner join {{ ref('fct_sampled_answers') }} as samples using (dataset, prompt, model, question_id)
where consistency.cert is not null
group by
    consistency.dataset, consistency.prompt, consistency.model, consistency.question_id, consistency.cert,
    questions.question, questions.gold_answers, questions.subject_popularity
having not bool_or(samples.is_correct)
order by
    consistency.cert desc, questions.subject_popularity desc nulls last, consistency.dataset asc,
    consistency.prompt asc, consistency.model asc, consistency.question_id asc
limit 100
