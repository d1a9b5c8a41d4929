with split_accuracy as (

    select * from {{ ref('int_adaptive_split_accuracy') }}

),

final as (

    select
        pair_id,
        search,
        threshold_scope,
        count(*) as n_splits,
        avg(accuracy_adaptive) as accuracy_adaptive,
        avg(accuracy_always) as accuracy_always,
        avg(accuracy_never) as accuracy_never,
        avg(accuracy_best_of_both) as accuracy_best_of_both,
        avg(accuracy_fixed) as accuracy_fixed,
        avg(accuracy_overall) as accuracy_overall,
        avg(share_retrieved) as share_retrieved,
        stddev_samp(accuracy_adaptive) as sd_over_splits,
        quantile_cont(accuracy_adaptive, 0.025) as split_low,
        quantile_cont(accuracy_adaptive, 0.975) as split_high,
        var_samp(accuracy_adaptive - accuracy_fixed) / count(*) as gain_variance_of_splits
    from split_accuracy
    group by pair_id, search, threshold_scope

)

select * from final
