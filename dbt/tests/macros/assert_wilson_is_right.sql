-- Expected values: statsmodels 0.15, proportion_confint(method='wilson').
with cases as (

    select
        k,
        n,
        low,
        high
    from (
        values
        (0, 10, 0.0, 0.2775327998628892),
        (10, 10, 0.7224672001371106, 1.0),
        (7, 10, 0.39677814746114537, 0.8922087325936989),
        (1, 1, 0.2065493143772375, 1.0),
        (0, 0, null, null)
    ) as t (k, n, low, high) -- noqa: AL05

),

computed as (

    select
        *,
        {{ wilson_low('k', 'n') }} as computed_low,
        {{ wilson_high('k', 'n') }} as computed_high
    from cases

)

select *
from computed
where
    (low is null) != (computed_low is null)
    or (high is null) != (computed_high is null)
    or abs(low - computed_low) > 1e-12
    or abs(high - computed_high) > 1e-12
