with source as (

    select * from {{ source('lake', 'single_latencies') }}
    where {{ is_declared(['dataset', 'model', 'method', 'prompt']) }}

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        prompt,
        single_latency_ms,
        round_number,
        turn,
        device,
        engine,
        run_id
    from source

)

select * from final
