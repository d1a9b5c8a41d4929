-- PopQA, Figures 7, 13 and 14: how accurate is each model with each method, and how certain is that? Beside it is the
-- accuracy of guessing, which always gives the relation's most frequent answer.
select
    accuracy.dataset,
    accuracy.prompt,
    accuracy.model,
    models.n_parameters,
    accuracy.method,
    accuracy.n,
    round(accuracy.accuracy, 3) as accuracy,
    round(accuracy.ci_low, 3) as ci_low,
    round(accuracy.ci_high, 3) as ci_high,
    round(accuracy.accuracy_majority, 3) as accuracy_majority
from {{ ref('fct_accuracy') }} as accuracy
inner join {{ ref('dim_models') }} as models using (model)
where accuracy.relation = 'all'
order by accuracy.dataset, accuracy.prompt, models.n_parameters, accuracy.model, accuracy.method
