-- Passages that a study places there are no method to fall back on.
with curves as (

    select * from {{ ref('int_risk_coverage') }}
    where coalesce(
        fallback_method not in (
            select methods.method from {{ ref('stg_study__methods') }} as methods
            where methods.is_condition
        ),
        true
    )

),

final as (

    select
        *,
        n_answered / n as coverage,
        {{ rate('n_wrong', 'n_answered', 'risk') }}
    from curves

)

select * from final
