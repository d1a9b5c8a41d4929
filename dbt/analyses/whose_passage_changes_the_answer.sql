-- PopQA, Tables 3 and 4, counted: if a passage changes the verdict, is it about the subject, a namesake, or something
-- else?
select
    dataset,
    prompt,
    model,
    retrieval_method,
    coalesce(passage_of, 'unknown') as passage_of,
    count(*) filter (where effect = 'misled') as n_misled,
    count(*) filter (where effect = 'rescued') as n_rescued,
    round(avg(has_answer::integer) filter (where effect = 'misled'), 3) as share_misled_by_a_passage_with_the_answer
from {{ ref('fct_passage_effects') }}
where
    parametric_method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
group by all
order by dataset, prompt, model, retrieval_method, passage_of
