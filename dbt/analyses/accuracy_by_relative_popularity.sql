-- PopQA, Figure 8: accuracy by the popularity of a subject relative to its own relation, in standard deviations of log
-- popularity. Bins with fewer than 40 rows are left out.
select
    dataset,
    prompt,
    model,
    method,
    z_low,
    z_high,
    n,
    round(accuracy, 3) as accuracy,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high
from {{ ref('fct_accuracy_by_relative_popularity') }}
where relation = 'all' and n >= 40
order by dataset, prompt, model, method, z_low
