with latencies as (select * from {{ ref('int_latencies') }}),

final as (

    select
        model,
        method,
        prompt,
        device,
        engine,
        n,
        median_ms,
        p95_ms,
        if(ci_low < ci_high, ci_low, null) as ci_low,
        if(ci_low < ci_high, ci_high, null) as ci_high,
        is_interleaved
    from latencies

)

select * from final
