with source as (

    select * from {{ source('lake', 'adaptive_signal_gains') }}
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
        baseline,
        n_questions,
        n_resamples,
        gain,
        variance_of_splits,
        gain_standard_error,
        n_deciding,
        share_departing,
        undefined
    from source

)

select * from final
