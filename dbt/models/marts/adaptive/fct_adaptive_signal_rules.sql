with rules as (select * from {{ ref('stg_statistics__adaptive_signal_rules') }}),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

-- Also by n_questions: rules that were fitted on other questions do not belong to this study.
final as (

    select rules.*
    from rules
    inner join method_pairs
        using (dataset, prompt, model, parametric_method, retrieval_method, n_questions)

)

select * from final
