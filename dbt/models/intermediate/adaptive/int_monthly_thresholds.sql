-- The rule of int_adaptive_thresholds (search exact, one threshold for all relations), by the views of one month.
with adaptive_rows as (

    select * from {{ ref('int_adaptive_rows') }}

),

monthly as (

    select * from {{ ref('int_monthly_popularity') }}

),

by_popularity as (

    select
        adaptive_rows.pair_id,
        monthly.month,
        monthly.month_popularity as popularity,
        count(*) as n,
        sum(adaptive_rows.retrieval - adaptive_rows.parametric) as gain
    from adaptive_rows
    inner join monthly
        on
            adaptive_rows.dataset = monthly.dataset
            and adaptive_rows.question_id = monthly.question_id
    where monthly.month_popularity is not null
    group by adaptive_rows.pair_id, monthly.month, monthly.month_popularity

),

candidates as (

    select
        pair_id,
        month,
        n,
        lead(popularity, 1, 'infinity'::double) over rising as threshold,
        first_value(popularity) over rising as never,
        row_number() over rising as position,
        sum(gain) over rising as gain
    from by_popularity
    window rising as (partition by pair_id, month order by popularity)

),

-- Of equally good candidates the lowest wins; one that gains nothing loses to never retrieving.
final as (

    select
        pair_id,
        month,
        case
            when max(gain) > 0 then arg_max(threshold, gain - position * 1e-9)
            else min(never)
        end as threshold,
        sum(n)::bigint as n
    from candidates
    group by pair_id, month

)

select * from final
