-- The values for all relations together are the sums over the relations.
select
    dataset,
    prompt,
    model,
    method
from {{ ref('fct_accuracy') }}
group by dataset, prompt, model, method
having
    sum(n) filter (where relation = 'all') != sum(n) filter (where relation != 'all')
    or sum(n_correct) filter (where relation = 'all') != sum(n_correct) filter (where relation != 'all')
