with averages as (select * from {{ ref('int_adaptive_average_costs') }}),
method_pairs as (select * from {{ ref('int_method_pairs') }}),
latencies as (select * from {{ ref('int_latencies') }}),
differences as (select * from {{ ref('int_latency_differences') }}),

final as (

    select
        averages.pair_id,
        averages.search,
        averages.threshold_scope,
        differences.n as n_timed,
        retrieval.median_ms as single_latency_ms_always,
        parametric.median_ms as single_latency_ms_never,
        retrieval.median_ms * averages.share_retrieved
        + parametric.median_ms * (1 - averages.share_retrieved) as single_latency_ms_adaptive,
        differences.median_ms * (1 - averages.share_retrieved) as single_latency_ms_saved,
        differences.ci_low * (1 - averages.share_retrieved) as single_latency_ms_saved_low,
        differences.ci_high * (1 - averages.share_retrieved) as single_latency_ms_saved_high,
        case
            when differences.n is null then null
            when differences.is_interleaved and single_latency_ms_saved_low > 0 then 'saves'
            when differences.is_interleaved and single_latency_ms_saved_high < 0 then 'takes_longer'
            else 'undecided'
        end as latency_claim
    from averages
    inner join method_pairs using (pair_id)
    left join differences using (model, prompt, parametric_method, retrieval_method)
    left join latencies as retrieval
        on
            method_pairs.model = retrieval.model
            and method_pairs.retrieval_method = retrieval.method
            and method_pairs.prompt = retrieval.prompt
    left join latencies as parametric
        on
            method_pairs.model = parametric.model
            and method_pairs.parametric_method = parametric.method
            and method_pairs.prompt = parametric.prompt

)

select * from final
