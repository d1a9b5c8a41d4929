-- PopQA, section 4.2 and Figure 5: how accurate is each model on the least popular questions alone (4,000 in the
-- paper)?
select
    least.dataset,
    least.prompt,
    least.method,
    least.model,
    models.n_parameters,
    least.n_least,
    least.n,
    round(least.popularity_high, 1) as most_popular_of_them,
    round(least.accuracy, 3) as accuracy,
    round(least.ci_low, 3) as ci_low,
    round(least.ci_high, 3) as ci_high
from {{ ref('fct_accuracy_least_popular') }} as least
inner join {{ ref('dim_models') }} as models on least.model = models.model
order by least.dataset, least.prompt, least.method, least.n_least, models.n_parameters, least.model
