with latencies as (select * from {{ ref('stg_generation__single_latencies') }}),

final as (

    {{ medians(
        'latencies',
        'model, method, prompt, device, engine',
        'single_latency_ms',
        also=['bool_and(round_number is not null) as is_interleaved']
    ) }}

)

select * from final
