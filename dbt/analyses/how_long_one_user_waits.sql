-- PopQA, Figure 11: how long does one user wait for an answer if retrieving always, never, or below the threshold, and
-- what does a service bill? Null if a model was not timed or has no price. The saving of adaptive retrieval comes from
-- the median difference of both methods on the same questions (n_timed), with its 95 % interval; claim says whether the
-- interval excludes zero. n_reused answers came from the row cache.
select
    dataset,
    prompt,
    model,
    parametric_method,
    retrieval_method,
    n_questions,
    n_reused,
    round(share_retrieved, 3) as share_retrieved,
    round(single_latency_ms_always, 1) as latency_ms_always,
    round(single_latency_ms_never, 1) as latency_ms_never,
    round(single_latency_ms_adaptive, 1) as latency_ms_adaptive,
    n_timed,
    round(single_latency_ms_saved, 2) as latency_ms_saved,
    round(single_latency_ms_saved_low, 2) as saved_low,
    round(single_latency_ms_saved_high, 2) as saved_high,
    latency_claim as claim,
    cost_usd_per_1000_always,
    cost_usd_per_1000_adaptive,
    round(cost_usd_per_1000_saved / nullif(cost_usd_per_1000_always, 0), 3) as share_of_cost_saved
from {{ ref('fct_adaptive_costs') }}
where search = 'exact' and threshold_scope = 'per_relation'
order by dataset, prompt, model, parametric_method, retrieval_method
