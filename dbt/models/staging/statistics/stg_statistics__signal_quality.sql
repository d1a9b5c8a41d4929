with source as (

    select * from {{ source('lake', 'signal_quality') }}
    where {{ is_declared(['dataset', 'prompt', 'model', 'method'], generations='questions') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        measured_signal,
        n_known,
        n_known_correct,
        n_subjects,
        n_draws,
        auroc,
        auroc_ci_low,
        auroc_ci_high,
        auroc_within,
        average_precision,
        brier,
        calibration_error,
        undefined
    from source

)

select * from final
