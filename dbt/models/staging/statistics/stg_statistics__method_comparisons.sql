with source as (

    select * from {{ source('lake', 'method_comparisons') }}
    where {{ is_declared(['dataset', 'prompt'], generations='questions') }}

),

final as (

    select
        dataset,
        prompt,
        comparison,
        model_a,
        method_a,
        model_b,
        method_b,
        n,
        n_a_only,
        n_b_only,
        p_value,
        n_resamples,
        difference_low,
        difference_high
    from source

)

select * from final
