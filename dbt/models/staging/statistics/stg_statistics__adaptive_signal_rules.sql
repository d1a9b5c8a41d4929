with source as (

    select * from {{ source('lake', 'adaptive_signal_rules') }}
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
        relation,
        signal_prompt,
        n_questions,
        predictor_names,
        predictor_means,
        predictor_deviations,
        rule_coefficients,
        threshold_probability,
        n_below,
        n_below_with,
        n_below_without,
        n_above,
        n_above_with,
        n_above_without
    from source

)

select * from final
