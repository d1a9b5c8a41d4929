with source as (

    select * from {{ source('lake', 'prediction_terms') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}

),

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
    from source

)

select * from final
