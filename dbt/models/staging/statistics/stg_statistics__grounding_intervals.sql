with source as (

    select * from {{ source('lake', 'grounding_intervals') }}
    where {{ is_declared(['dataset', 'model', 'grounding_prompt']) }}

),

final as (

    select
        dataset,
        model,
        method,
        grounding_prompt,
        compared_with,
        measure,
        n_paired,
        n_resamples,
        value_low,
        value_high,
        p_value,
        undefined
    from source

)

select * from final
