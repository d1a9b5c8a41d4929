with models as (select * from {{ ref('stg_statistics__prediction_models') }}),

final as (

    select
        *,
        {{ rate_of('n_hits', 'n_scored', 'n_scored_subjects', 'score_deff', 'accuracy', 'ci') }},
        n_hits_baseline / nullif(n_scored, 0) as baseline,
        n_hits / nullif(n_hits_baseline, 0) - 1 as gain
    from models

)

select * from final
