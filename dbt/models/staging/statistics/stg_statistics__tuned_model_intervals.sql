with source as (

    select * from {{ source('lake', 'tuned_model_intervals') }}
    where tuned_model in (select settings.tuned_model from {{ ref('stg_study__sweep_settings') }} as settings)

),

final as (

    select
        tuned_model,
        step,
        split,
        relation,
        measure,
        n_resamples,
        value_low,
        value_high,
        undefined
    from source

)

select * from final
