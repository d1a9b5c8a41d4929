-- PopQA, Table 3: which questions does the model answer right from memory and wrong with a passage? Most popular
-- first. A passage about a namesake misleads although it has the right name.
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
    effects.effect = 'misled'
    and effects.parametric_method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
order by
    effects.subject_popularity desc nulls last, effects.dataset asc, effects.question_id asc, effects.prompt asc,
    effects.model asc, effects.retrieval_method asc
limit 100
