{%- set key = 'dataset, month' -%}
with monthly as (select * from {{ ref('int_monthly_popularity') }}),
edges as (select * from {{ ref('int_monthly_edges') }}),

paired as (

    select
        monthly.*,
        edges.month_edges,
        edges.window_edges
    from monthly
    inner join edges using ({{ key }})
    where monthly.month_popularity is not null and monthly.window_popularity is not null

),

-- The bin is the number of inner edges at or below the popularity. Popularity 0 has none, so it falls into bin 0.
binned as (

    select
        *,
        if(month_popularity > 0, len(list_filter(month_edges, lambda e: e <= month_popularity)), -1) as month_bin,
        if(window_popularity > 0, len(list_filter(window_edges, lambda e: e <= window_popularity)), -1) as window_bin,
        {{ average_rank('month_popularity', key) }} as month_rank,
        {{ average_rank('window_popularity', key) }} as window_rank
    from paired

),

compared as (

    select
        dataset,
        month,
        count(*) as n_compared,
        avg((month_bin != window_bin)::integer) as share_bin_changed,
        median(month_popularity / nullif(window_popularity, 0)) as median_ratio,
        {{ correlation('month_rank', 'window_rank') }} as rank_correlation,
        {{ why_undefined(
            'month_rank', 'window_rank', 'popularity in the month', 'popularity in the window', 'questions'
        ) }} as rank_correlation_undefined
    from binned
    group by dataset, month

),

final as (

    select
        edges.dataset,
        edges.month,
        coalesce(compared.n_compared, 0) as n_compared,
        compared.share_bin_changed,
        compared.median_ratio,
        compared.rank_correlation,
        case
            when compared.n_compared is null then 'too few questions'
            else compared.rank_correlation_undefined
        end as rank_correlation_undefined
    from edges
    left join compared using ({{ key }})

)

select * from final
