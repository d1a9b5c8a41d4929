-- PopQA, Figure 9: how much does adaptive retrieval gain over the better fixed method, on held-out questions? The gain
-- has an interval.
select
    dataset,
    prompt,
    model,
    parametric_method,
    retrieval_method,
    threshold_scope,
    round(accuracy_adaptive, 3) as adaptive,
    round(accuracy_always, 3) as always,
    round(accuracy_never, 3) as never,
    round(accuracy_best_of_both, 3) as best_of_both,
    round(gain, 3) as gain_held_out,
    round(gain_in_sample, 3) as gain_in_sample,
    round(gain_ci_low, 3) as gain_ci_low,
    round(gain_ci_high, 3) as gain_ci_high,
    gain_ci_undefined,
    round(share_retrieved, 2) as share_retrieved
from {{ ref('fct_adaptive_accuracy') }}
where search = 'exact'
order by dataset, prompt, model, parametric_method, retrieval_method, threshold_scope
