-- PopQA, section 6.1: below which popularity does each relation want a passage? Infinity: always. The least popularity
-- of its questions: never.
select
    dataset,
    prompt,
    model,
    parametric_method,
    retrieval_method,
    relation,
    threshold_popularity,
    n,
    round(accuracy, 3) as accuracy,
    round(accuracy - greatest(accuracy_always, accuracy_never), 3) as gain_in_sample
from {{ ref('fct_adaptive_thresholds') }}
where search = 'exact'
order by dataset, prompt, model, parametric_method, retrieval_method, relation = 'all', relation
