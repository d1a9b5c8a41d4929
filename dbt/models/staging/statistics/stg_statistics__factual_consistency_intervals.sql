with source as (

    select * from {{ source('lake', 'factual_consistency_intervals') }}
    where {{ is_declared(['dataset', 'prompt', 'model'], generations='candidates') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        bin,
        measure,
        n_resamples,
        value_low,
        value_high,
        undefined
    from source

)

select * from final
