-- PopQA, Figures 7 and 9, tested: which method or model is better than which on the same questions, or is the
-- difference chance? Exact McNemar test, Holm's correction over all comparisons of a dataset, bootstrap interval of the
-- difference.
select
    dataset,
    prompt,
    comparison,
    model_a,
    method_a,
    model_b,
    method_b,
    n,
    n_a_only,
    n_b_only,
    round(difference, 3) as difference,
    round(ci_low, 3) as ci_low,
    round(ci_high, 3) as ci_high,
    p_value,
    p_holm,
    p_holm < 0.05 as is_significant
from {{ ref('fct_method_comparisons') }}
order by dataset, prompt, comparison, p_holm, model_a, method_a, model_b, method_b
