with rules as (select * from {{ ref('int_adaptive_signals') }} where result = 'rules'),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

-- Also by n_questions: rules that were fitted on other questions do not belong to this study.
final as (

    select
        dataset,
        prompt,
        model,
        parametric_method,
        retrieval_method,
        rules.signal,
        rules.threshold_scope,
        rules.relation,
        rules.signal_prompt,
        n_questions,
        rules.predictor_names,
        rules.predictor_means,
        rules.predictor_deviations,
        rules.rule_coefficients,
        rules.threshold_probability,
        rules.n_below,
        rules.n_below_with,
        rules.n_below_without,
        rules.n_above,
        rules.n_above_with,
        rules.n_above_without
    from rules
    inner join method_pairs
        using (dataset, prompt, model, parametric_method, retrieval_method, n_questions)

)

select * from final
