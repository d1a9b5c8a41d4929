with source as (

    select * from {{ source('lake', 'adaptive_gains') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], asks='questions') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        parametric_method,
        retrieval_method,
        search,
        threshold_scope,
        n_questions,
        n_resamples,
        gain_in_sample,
        gain_mean,
        gain_low,
        gain_high
    from source

)

select * from final
