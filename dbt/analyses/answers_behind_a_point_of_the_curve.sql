-- PopQA, Figure 4, from the curve to the raw answers: what stands behind one point (the least popular bin of every
-- model)?
select
    answers.model,
    answers.method,
    answers.question,
    answers.gold_answers,
    answers.prediction,
    answers.is_correct,
    round(answers.subject_popularity) as subject_popularity
from {{ ref('fct_accuracy_by_popularity') }} as curve
inner join {{ ref('fct_answers') }} as answers
    on
        curve.dataset = answers.dataset
        and curve.prompt = answers.prompt
        and curve.model = answers.model
        and curve.method = answers.method
        and curve.bin_low <= answers.subject_popularity
        and curve.bin_high > answers.subject_popularity
where curve.relation = 'all' and curve.bin = 0 and curve.method = 'closed_book'
order by answers.model, answers.subject_popularity, answers.question_id
