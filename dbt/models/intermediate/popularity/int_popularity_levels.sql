{{ config(materialized='view') }}

-- Edges are powers of 10 in the units of the measure, so that no logarithm decides on the side of a question.
with final as (

    select listed.*
    from (
        values
        ('below', null::integer, 1, 0.0::double, 10.0::double),
        ('[1,2)', 1, 2, 10, 100),
        ('[2,3)', 2, 3, 100, 1000),
        ('[3,4)', 3, 4, 1000, 10000),
        ('[4,5)', 4, 5, 10000, 100000),
        ('[5,∞)', 5, null, 100000, 'infinity')
    ) as listed (level, level_low_log10, level_high_log10, popularity_low, popularity_high)

)

select * from final
