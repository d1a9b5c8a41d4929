-- PopQA, Figures 11 and 12: what does an accurate answer cost, by each method and by adaptive retrieval? The query
-- shows dollars and device seconds per right answer, and the time that one user waits for any answer. Adaptive
-- retrieval is held-out, on questions with popularity. Each method counts as if it ran alone. n_reused answers (of both
-- methods for adaptive retrieval) came from the row cache. Seconds and waits are measured: to decide which of two is
-- less, use how_long_one_user_waits, which has an interval.
with fixed_methods as (

    select
        costs.dataset,
        costs.prompt,
        costs.model,
        costs.method,
        costs.n,
        costs.n_reused,
        accuracy.accuracy,
        costs.cost_usd_per_1000,
        costs.device_seconds_per_1000,
        costs.single_latency_ms,
        costs.share_of_prompt_tokens_shared
    from {{ ref('fct_costs') }} as costs
    inner join {{ ref('fct_accuracy') }} as accuracy
        on
            costs.dataset = accuracy.dataset
            and costs.prompt = accuracy.prompt
            and costs.model = accuracy.model
            and costs.method = accuracy.method
            and accuracy.relation = 'all'

),

adaptive as (

    select
        costs.dataset,
        costs.prompt,
        costs.model,
        costs.parametric_method || ' or ' || costs.retrieval_method as method,
        costs.n_questions as n,
        costs.n_reused,
        accuracy.accuracy_adaptive as accuracy,
        costs.cost_usd_per_1000_adaptive as cost_usd_per_1000,
        costs.device_seconds_per_1000_adaptive as device_seconds_per_1000,
        costs.single_latency_ms_adaptive as single_latency_ms,
        null::double as share_of_prompt_tokens_shared
    from {{ ref('fct_adaptive_costs') }} as costs
    inner join {{ ref('fct_adaptive_accuracy') }} as accuracy
        using (dataset, prompt, model, parametric_method, retrieval_method, search, threshold_scope)
    where costs.search = 'exact' and costs.threshold_scope = 'per_relation'

),

ways as (

    select * from fixed_methods
    union all
    select * from adaptive

)

select
    dataset,
    prompt,
    model,
    method,
    n,
    n_reused,
    round(accuracy, 3) as accuracy,
    cost_usd_per_1000 / nullif(1000 * accuracy, 0) as cost_usd_per_right_answer,
    device_seconds_per_1000 / nullif(1000 * accuracy, 0) as device_seconds_per_right_answer,
    round(single_latency_ms, 1) as single_latency_ms,
    round(share_of_prompt_tokens_shared, 2) as share_of_prompt_tokens_shared
from ways
order by dataset, prompt, model, cost_usd_per_right_answer, device_seconds_per_right_answer, method
