-- PopQA-TP, Table 3: for which well-known subjects (the more popular half of the dataset's questions) do paraphrased
-- questions get different answers?
with questions as (

    select
        *,
        percent_rank() over (partition by dataset order by subject_popularity) as popularity_rank
    from {{ ref('dim_questions') }}
    where subject_popularity is not null

)

select
    consistency.dataset,
    consistency.prompt,
    consistency.model,
    consistency.question_id,
    questions.question,
    questions.gold_answers,
    round(questions.subject_popularity, 1) as subject_popularity,
    round(consistency.scons, 3) as scons,
    list(distinct trim(answers.prediction) order by trim(answers.prediction)) as predictions
from {{ ref('fct_question_consistency') }} as consistency
inner join questions using (dataset, question_id)
inner join {{ ref('fct_paraphrase_answers') }} as answers using (dataset, prompt, model, question_id)
where consistency.scons is not null and questions.popularity_rank >= 0.5
group by
    consistency.dataset, consistency.prompt, consistency.model, consistency.question_id, consistency.scons,
    questions.question, questions.gold_answers, questions.subject_popularity
order by
    consistency.scons asc, questions.subject_popularity desc, consistency.dataset asc, consistency.prompt asc,
    consistency.model asc, consistency.question_id asc
limit 100
