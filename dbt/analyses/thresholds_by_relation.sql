-- PopQA, section 6.1: below which popularity does each relation need a passage? Some always need one, some never.
select
    dataset,
    prompt,
    model,
    parametric_method,
    retrieval_method,
    relation,
    decision,
    threshold_popularity,
    round(share_retrieved, 2) as share_retrieved,
    n,
    round(accuracy, 3) as accuracy,
    round(accuracy - greatest(accuracy_always, accuracy_never), 3) as gain_in_sample
from {{ ref('fct_adaptive_thresholds') }}
where search = 'exact'
order by dataset, prompt, model, parametric_method, retrieval_method, relation = 'all', relation
