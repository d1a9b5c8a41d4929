-- PopQA, Figure 4, from the curve to the raw answers: which answers make up one point (the least popular bin of every
-- model)?
select
    answers.dataset,
    answers.prompt,
    answers.model,
    answers.method,
    answers.question_id,
    answers.question,
    answers.gold_answers,
    answers.prediction,
    answers.is_correct,
    round(answers.subject_popularity, 1) as subject_popularity
from {{ ref('fct_accuracy_by_popularity') }} as curve
inner join {{ ref('fct_answers') }} as answers
    on
        curve.dataset = answers.dataset
        and curve.prompt = answers.prompt
        and curve.model = answers.model
        and curve.method = answers.method
        and curve.bin_low <= answers.subject_popularity
        -- If popularity does not vary, there is one bin, which includes both edges.
        and (curve.bin_high > answers.subject_popularity or curve.bin_low = curve.bin_high)
where
    curve.relation = 'all'
    and curve.bin = 0
    and curve.method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
order by answers.dataset, answers.prompt, answers.model, answers.subject_popularity, answers.question_id
