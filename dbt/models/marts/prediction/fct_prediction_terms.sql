with terms as (select * from {{ ref('int_prediction_regressions') }} where result = 'terms'),

final as (

    select
        dataset,
        prompt,
        model,
        setting,
        predictors,
        term,
        df,
        n_undefined,
        wald_chi2,
        p_value,
        code,
        clustered_wald_chi2,
        clustered_p_value,
        undefined
    from terms

)

select * from final
