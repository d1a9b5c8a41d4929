-- Computed by hand: a perfect line, a perfect inverse, one side constant, the other side constant, too few rows.
with cases as (

    select
        name,
        x,
        y,
        expected
    from (
        values
        ('line', 1, 2, 1.0), ('line', 2, 4, 1.0), ('line', 3, 6, 1.0),
        ('inverse', 1, 3, -1.0), ('inverse', 2, 2, -1.0), ('inverse', 3, 1, -1.0),
        ('no variance in y', 1, 5, null), ('no variance in y', 2, 5, null), ('no variance in y', 3, 5, null),
        ('no variance in x', 1, 5, null), ('no variance in x', 1, 6, null), ('no variance in x', 1, 7, null),
        ('too few', 1, 5, null), ('too few', 2, 6, null)
    ) as t (name, x, y, expected) -- noqa: AL05

),

computed as (

    select
        name,
        min(expected) as expected,
        {{ correlation('x', 'y', minimum=3) }} as computed
    from cases
    group by name

)

select *
from computed
where (expected is null) != (computed is null) or abs(expected - computed) > 1e-12
