-- Expected values: the cluster-robust variance of statsmodels 0.15 (OLS, cov_type='cluster') and the roots of Wilson's
-- quadratic equation, with Student's quantile of scipy.
with cases as (

    select
        name,
        low,
        high,
        expected_deff,
        unnest(subjects, recursive := true)  -- noqa: AL03
    from (
        values
        ('each its own', 0.34223417045912496, 0.9127711044350775, 1.1111111111111105, [
            { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 1, n: 1 },
            { y: 1, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }
        ]),
        ('all right', 0.5107303378695349, 1, 1.6, [
            { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 1, n: 1 }, { y: 2, n: 2 }, { y: 2, n: 2 },
            { y: 2, n: 2 }
        ]),
        ('all wrong', 0, 0.3385086226601833, 1.0, [
            { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 },
            { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }, { y: 0, n: 1 }
        ]),
        ('four subjects', 0.0698378709938045, 0.9301621290061954, 2.25, [
            { y: 1, n: 2 }, { y: 0, n: 3 }, { y: 1, n: 1 }, { y: 2, n: 2 }
        ]),
        ('dependent', 0.16757732713256282, 0.8324226728674372, 3.1168831168831157, [
            { y: 3, n: 3 }, { y: 0, n: 4 }, { y: 2, n: 2 }, { y: 0, n: 1 }, { y: 5, n: 6 }, { y: 0, n: 2 },
            { y: 1, n: 1 }, { y: 0, n: 3 }
        ]),
        ('against each other', 0.22944349289875027, 0.7262919691847052, 1, [
            { y: 1, n: 2 }, { y: 1, n: 2 }, { y: 1, n: 2 }, { y: 1, n: 2 }, { y: 1, n: 2 }, { y: 1, n: 2 },
            { y: 1, n: 2 }, { y: 1, n: 3 }
        ]),
        ('thirty', 0.1856592043485473, 0.52302665679213, 2.0689655172413812, [
            { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 }, { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 },
            { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 }, { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 },
            { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 }, { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 },
            { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 }, { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 },
            { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 }, { y: 2, n: 2 }, { y: 0, n: 2 }, { y: 0, n: 2 }
        ]),
        ('one subject', null, null, 5.0, [{ y: 3, n: 5 }]),
        ('two', 0.0012311734144340731, 0.9950934288620868, 1.6666666666666667, [{ y: 1, n: 1 }, { y: 0, n: 2 }])
    ) as t (name, low, high, expected_deff, subjects) -- noqa: AL05

),

summed as (

    select
        name,
        any_value(low) as low,
        any_value(high) as high,
        any_value(expected_deff) as expected_deff,
        {{ subject_sums('y') }} as sums
    from cases
    group by name

),

computed as (

    select
        *,
        {{ subjects_and_deff('sums') }},
        {{ rate('sums', 'rate') }}
    from summed

)

select *
from computed
where
    (low is null) != (rate_ci_low is null)
    or (high is null) != (rate_ci_high is null)
    or abs(low - rate_ci_low) > 1e-8
    or abs(high - rate_ci_high) > 1e-8
    or abs(expected_deff - deff) > 1e-8
