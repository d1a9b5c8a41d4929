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
        undefined
    from terms

)

select * from final
