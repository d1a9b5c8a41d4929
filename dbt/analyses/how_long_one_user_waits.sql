-- PopQA, Figure 11: how long does one user wait for an answer when retrieving always, never, or below the threshold,
-- and what does a service bill? Null where a model was not timed, or has no price.
select
    dataset,
    prompt,
    model,
    parametric_method,
    retrieval_method,
    n_questions,
    round(share_retrieved, 3) as share_retrieved,
    round(single_latency_ms_always, 1) as latency_ms_always,
    round(single_latency_ms_never, 1) as latency_ms_never,
    round(single_latency_ms_adaptive, 1) as latency_ms_adaptive,
    round(1 - single_latency_ms_adaptive / nullif(single_latency_ms_always, 0), 3) as share_of_latency_saved,
    cost_usd_per_1000_always,
    cost_usd_per_1000_adaptive,
    round(1 - cost_usd_per_1000_adaptive / nullif(cost_usd_per_1000_always, 0), 3) as share_of_cost_saved
from {{ ref('fct_adaptive_costs') }}
where search = 'exact' and threshold_scope = 'per_relation'
order by dataset, prompt, model, parametric_method, retrieval_method
