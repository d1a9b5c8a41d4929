-- The ranks of 10, 20, 20, 30 are 1, 2.5, 2.5, 4. Each group has its own ranks.
with cases as (

    select
        grouping_key,
        value,
        expected
    from (
        values ('a', 10, 1.0), ('a', 20, 2.5), ('a', 20, 2.5), ('a', 30, 4.0), ('b', 20, 1.0)
    ) as t (grouping_key, value, expected) -- noqa: AL05

),

computed as (

    select
        *,
        {{ average_rank('value', 'grouping_key') }} as computed
    from cases

)

select *
from computed
where computed != expected
