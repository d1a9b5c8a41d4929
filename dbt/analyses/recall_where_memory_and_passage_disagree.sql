-- PopQA, Table 1: if only memory or only the passage is right, how often did the passage contain the answer?
select
    dataset,
    prompt,
    model,
    retrieval_method,
    case
        when parametric_correct and retrieval_correct then 'both right'
        when parametric_correct then 'only memory right'
        when retrieval_correct then 'only retrieval right'
        else 'both wrong'
    end as quadrant,
    n,
    round(100 * share, 1) as percent_of_questions,
    n_known,
    round(recall_at_1, 3) as recall_at_1
from {{ ref('fct_retrieval_quadrants') }}
where
    parametric_method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
order by
    dataset asc, prompt asc, model asc, retrieval_method asc, parametric_correct desc, retrieval_correct desc
