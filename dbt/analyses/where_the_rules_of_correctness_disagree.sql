-- PopQA, section 3.1 (the prediction contains a gold answer): how many verdicts would other rules change?
select
    dataset,
    prompt,
    model,
    method,
    sum(n) as n,
    sum(n) filter (where is_correct) as n_correct,
    sum(n) filter (where is_correct and not is_exact_match) as n_only_by_popqa_not_exact,
    sum(n) filter (where is_correct != is_correct_case_sensitive) as n_by_case_only,
    sum(n) filter (where is_correct != is_correct_normalized) as n_by_normalisation_only
from {{ ref('fct_correctness_disagreement') }}
group by all
order by dataset, prompt, model, method
