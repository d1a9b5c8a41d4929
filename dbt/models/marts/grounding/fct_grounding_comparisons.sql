with comparisons as (select * from {{ ref('int_grounding_comparisons') }}),

final as (

    select
        dataset,
        model,
        method,
        grounding_prompt,
        compared_with,
        measure,
        n_paired,
        n_subjects,
        mean_value,
        base_value,
        value,
        value_ci_low,
        value_ci_high,
        p_value,
        p_holm,
        undefined
    from comparisons

)

select * from final
