with source as (

    select * from {{ source('lake', 'adaptive_gains') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='questions') }}

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
        n_deciding,
        share_departing,
        gain_standard_error,
        undefined
    from source

)

select * from final
