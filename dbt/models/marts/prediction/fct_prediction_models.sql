with models as (select * from {{ ref('stg_statistics__prediction_models') }}),

final as (

    select
        *,
        n_hits / nullif(n_scored, 0) as accuracy,
        {{ wilson_low('n_hits', 'n_scored') }} as ci_low,
        {{ wilson_high('n_hits', 'n_scored') }} as ci_high,
        n_hits_baseline / nullif(n_scored, 0) as baseline,
        n_hits / nullif(n_hits_baseline, 0) - 1 as gain
    from models

)

select * from final
