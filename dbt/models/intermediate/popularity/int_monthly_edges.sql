-- Edges as in int_question_bins, relation all: from all questions that have this popularity.
with monthly as (select * from {{ ref('int_monthly_popularity') }}),

ranges as (

    select
        dataset,
        month,
        min(nullif(month_popularity, 0)) as month_low,
        max(nullif(month_popularity, 0)) as month_high,
        min(nullif(window_popularity, 0)) as window_low,
        max(nullif(window_popularity, 0)) as window_high
    from monthly
    group by dataset, month

),

numbered as (

    select
        *,
        unnest(range(1, {{ var('popularity_bins') }})) as i
    from ranges

),

final as (

    select
        dataset,
        month,
        list({{ log_edge('month_low', 'month_high', 'i', var('popularity_bins')) }} order by i) as month_edges,
        list({{ log_edge('window_low', 'window_high', 'i', var('popularity_bins')) }} order by i) as window_edges
    from numbered
    group by dataset, month

)

select * from final
