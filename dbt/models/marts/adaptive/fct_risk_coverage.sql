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
        {%- for percent in [5, 10, 20] %}
        max(n_answered / n) filter (where 100 * n_wrong <= {{ percent }} * n_answered)
            over curve as coverage_at_risk_{{ percent }},
        {%- endfor %}
        {{ rate_of('n_wrong', 'n_answered', 'n_subjects', 'deff', 'risk') }}
    from curves
    window curve as (partition by dataset, prompt, model, method, fallback_method, signal)

)

select * from final
