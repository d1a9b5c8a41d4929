with source as (

    select * from {{ source('lake', 'adaptive_signals') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='questions') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        parametric_method,
        retrieval_method,
        signal,
        threshold_scope,
        n_questions,
        n_compared,
        n_zero_popularity,
        n_no_measures,
        n_no_confidence,
        n_one_outcome,
        n_splits,
        accuracy,
        accuracy_always,
        accuracy_never,
        accuracy_fixed,
        share_retrieved,
        device_seconds_per_1000,
        cost_usd_per_1000,
        answer_latency_ms,
        signal_tokens_per_1000,
        signal_device_seconds_per_1000,
        signal_cost_usd_per_1000,
        signal_latency_ms,
        undefined
    from source

)

select * from final
