-- PopQA, Table 4: which questions does the model answer wrong from memory and right with a passage? Least popular
-- first.
select
    effects.dataset,
    effects.prompt,
    effects.model,
    effects.retrieval_method,
    effects.question_id,
    effects.question,
    effects.gold_answers,
    effects.parametric_prediction,
    effects.retrieval_prediction,
    effects.passage_of,
    effects.has_answer,
    effects.passage_title,
    passages.text as passage,
    effects.subject_popularity
from {{ ref('fct_passage_effects') }} as effects
left join {{ ref('dim_passages') }} as passages using (passage_id)
where
    effects.effect = 'rescued'
    and effects.parametric_method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
order by
    effects.subject_popularity asc nulls last, effects.dataset asc, effects.question_id asc, effects.prompt asc,
    effects.model asc, effects.retrieval_method asc
limit 100
