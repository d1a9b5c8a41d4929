-- From 1 to 10,000 in four bins, and both ends of the single bin without variance.
with cases as (

    select
        low,
        high,
        i,
        n_bins,
        expected
    from (
        values
        (1.0, 10000.0, 0, 4, 1.0), (1.0, 10000.0, 1, 4, 10.0), (1.0, 10000.0, 2, 4, 100.0),
        (1.0, 10000.0, 4, 4, 10000.0), (7.0, 7.0, 0, 1, 7.0), (7.0, 7.0, 1, 1, 7.0)
    ) as t (low, high, i, n_bins, expected) -- noqa: AL05

),

computed as (

    select
        *,
        {{ log_edge('low::double', 'high::double', 'i', 'n_bins') }} as computed
    from cases

)

select *
from computed
where abs(computed - expected) > 1e-9 * expected
