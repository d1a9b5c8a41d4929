with coefficients as (select * from {{ ref('int_prediction_regressions') }} where result = 'coefficients'),

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
        n_subjects,
        clustered_standard_error,
        clustered_p_value,
        undefined
    from coefficients

)

select * from final
