-- ParaRel and Atlas: is a model more consistent if all patterns of a fact come with the same passages, and is it right?
select
    dataset,
    prompt,
    model,
    measure,
    method,
    round(value, 3) as value,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high,
    n_facts,
    n_relations
from {{ ref('fct_factual_consistency') }}
where relation = 'all' and measure in ('consistency', 'accuracy', 'majority_accuracy', 'all_right', 'same_wrong')
order by dataset asc, prompt asc, model asc, measure asc, value desc, method asc
