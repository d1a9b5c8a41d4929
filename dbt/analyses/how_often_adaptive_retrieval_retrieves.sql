-- PopQA, Figures 10 and 15: for which share of the questions does adaptive retrieval give each model a passage? Larger
-- models get fewer.
select
    usage.dataset,
    usage.prompt,
    usage.parametric_method,
    usage.retrieval_method,
    usage.relation,
    models.n_parameters,
    usage.model,
    usage.n,
    round(usage.share_retrieved, 3) as share_retrieved
from {{ ref('fct_adaptive_usage') }} as usage
inner join {{ ref('dim_models') }} as models using (model)
where usage.search = 'exact' and usage.threshold_scope = 'per_relation'
order by
    usage.dataset, usage.prompt, usage.parametric_method, usage.retrieval_method,
    usage.relation != 'all', usage.relation, models.n_parameters, usage.model
