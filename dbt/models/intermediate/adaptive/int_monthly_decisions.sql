with adaptive_rows as (

    select * from {{ ref('int_adaptive_rows') }}

),

monthly as (

    select * from {{ ref('int_monthly_popularity') }}

),

month_thresholds as (

    select * from {{ ref('int_monthly_thresholds') }}

),

window_thresholds as (

    select * from {{ ref('int_adaptive_thresholds') }}
    where split = -1 and relation = 'all' and search = 'exact'

),

decided as (

    select
        adaptive_rows.pair_id,
        monthly.month,
        monthly.month_popularity < month_thresholds.threshold as by_month,
        adaptive_rows.popularity < window_thresholds.threshold as by_window
    from adaptive_rows
    inner join monthly
        on
            adaptive_rows.dataset = monthly.dataset
            and adaptive_rows.question_id = monthly.question_id
    inner join month_thresholds
        on
            adaptive_rows.pair_id = month_thresholds.pair_id
            and monthly.month = month_thresholds.month
    inner join window_thresholds on adaptive_rows.pair_id = window_thresholds.pair_id
    where monthly.month_popularity is not null

),

final as (

    select
        pair_id,
        month,
        count(*) as n,
        avg(by_month::integer) as share_retrieved_month,
        avg(by_window::integer) as share_retrieved_window,
        avg((by_month != by_window)::integer) as share_decision_changed
    from decided
    group by pair_id, month

)

select * from final
