-- PopQA, Figures 4, 16 and 17: how accurate is memory per relation, and how does that correlate with log popularity?
select
    accuracy.dataset,
    accuracy.prompt,
    accuracy.relation,
    accuracy.model,
    accuracy.n,
    round(accuracy.accuracy, 3) as accuracy,
    round(accuracy.ci_low, 3) as ci_low,
    round(accuracy.ci_high, 3) as ci_high,
    correlation.n_bins,
    round(correlation.pearson_binned, 3) as pearson_binned,
    correlation.pearson_binned_undefined,
    round(correlation.point_biserial, 3) as point_biserial,
    round(correlation.spearman, 3) as spearman
from {{ ref('fct_accuracy') }} as accuracy
inner join {{ ref('fct_popularity_correlation') }} as correlation
    using (dataset, prompt, model, method, relation)
inner join {{ ref('dim_models') }} as models using (model)
where
    accuracy.method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
    and accuracy.relation != 'all'
order by accuracy.dataset, accuracy.prompt, accuracy.relation, models.n_parameters, accuracy.model
