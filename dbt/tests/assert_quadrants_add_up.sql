-- The four shares of a pair of methods sum to 1.
select
    dataset,
    prompt,
    model,
    parametric_method,
    retrieval_method
from {{ ref('fct_retrieval_quadrants') }}
group by dataset, prompt, model, parametric_method, retrieval_method
having count(*) != 4 or abs(sum(share) - 1) > 1e-9
