with gains as (select * from {{ ref('int_adaptive_signals') }} where result = 'gains'),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

-- Two variances add up: that of the drawn questions and that of the splits.
final as (

    select
        gains.dataset,
        gains.prompt,
        gains.model,
        gains.parametric_method,
        gains.retrieval_method,
        gains.signal,
        gains.threshold_scope,
        gains.baseline,
        gains.gain,
        1.959963984540054::double * sqrt(gains.gain_standard_error ** 2 + gains.variance_of_splits) as half,
        gains.gain - half as gain_ci_low,
        gains.gain + half as gain_ci_high,
        gains.undefined as gain_ci_undefined
    from gains
    -- Also by n_questions: a bootstrap over other questions does not belong to this study.
    inner join method_pairs
        using (dataset, prompt, model, parametric_method, retrieval_method, n_questions)

)

select * exclude (half) from final
