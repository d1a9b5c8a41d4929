with source as (

    select * from {{ source('lake', 'latency_calibrations') }}
    where {{ is_declared(['model', 'method', 'prompt']) }}

),

final as (

    select
        model,
        method,
        prompt,
        n_questions,
        single_latency_ms,
        single_latency_ms_p95,
        device,
        engine,
        run_id
    from source

)

select * from final
