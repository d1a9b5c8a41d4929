-- PopQA, Figure 5: does a larger model know more about everything, or mostly more about popular subjects? Level 'below'
-- means under ten views per month.
select
    dataset,
    prompt,
    family,
    level,
    n_parameters,
    model,
    n,
    round(accuracy, 3) as accuracy,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high
from {{ ref('fct_accuracy_by_popularity_level') }}
where
    method in (
        select methods.method from {{ ref('dim_methods') }} as methods
        where methods.kind = 'memory'
    )
order by dataset, prompt, family, level_low_log10 nulls first, n_parameters, model
