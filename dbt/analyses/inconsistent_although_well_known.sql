-- PopQA-TP, Table 3: well-known subjects whose paraphrased questions get different answers.
select
    consistency.model,
    questions.question,
    questions.subject_popularity,
    consistency.scons,
    list(distinct answers.prediction) as predictions
from {{ ref('fct_question_consistency') }} as consistency
inner join {{ ref('dim_questions') }} as questions
    on consistency.dataset = questions.dataset and consistency.question_id = questions.question_id
inner join {{ ref('fct_paraphrase_answers') }} as answers
    on
        consistency.dataset = answers.dataset
        and consistency.prompt = answers.prompt
        and consistency.model = answers.model
        and consistency.question_id = answers.question_id
where consistency.scons is not null
group by all
order by consistency.scons asc, questions.subject_popularity desc
limit 100
