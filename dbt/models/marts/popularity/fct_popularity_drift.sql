with method_pairs as (select * from {{ ref('int_method_pairs') }}),
month_thresholds as (select * from {{ ref('int_monthly_thresholds') }}),

window_thresholds as (

    select * from {{ ref('int_adaptive_thresholds') }}
    where split = -1 and relation = 'all' and search = 'exact'

),

popularity_drift as (select * from {{ ref('int_popularity_drift') }}),

final as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        popularity_drift.month,
        coalesce(month_thresholds.n, 0) as n,
        month_thresholds.threshold_popularity as threshold_month,
        window_thresholds.threshold_popularity as threshold_window,
        month_thresholds.share_retrieved_month,
        month_thresholds.share_retrieved_window,
        month_thresholds.share_decision_changed,
        popularity_drift.n_compared as n_questions,
        popularity_drift.share_bin_changed,
        popularity_drift.median_ratio,
        popularity_drift.rank_correlation,
        popularity_drift.rank_correlation_undefined
    from method_pairs
    inner join popularity_drift using (dataset)
    inner join window_thresholds using (pair_id)
    left join month_thresholds
        on
            method_pairs.pair_id = month_thresholds.pair_id
            and popularity_drift.month = month_thresholds.month

)

select * from final
