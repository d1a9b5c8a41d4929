with source as (

    select * from {{ source('lake', 'prediction_coefficients') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        setting,
        predictors,
        coding,
        term,
        relation,
        is_base,
        is_separated,
        n_fitted,
        n_correct,
        beta,
        standard_error,
        ci_low,
        ci_high,
        exp_beta,
        exp_ci_low,
        exp_ci_high,
        z,
        p_value,
        code,
        undefined
    from source

)

select * from final
