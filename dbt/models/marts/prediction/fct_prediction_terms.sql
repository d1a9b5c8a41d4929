with terms as (select * from {{ ref('stg_statistics__prediction_terms') }}),

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
