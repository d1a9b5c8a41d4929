with split_accuracy as (

    select * from {{ ref('int_adaptive_split_accuracy') }}

),

method_pairs as (

    select * from {{ ref('int_method_pairs') }}

),

adaptive_gains as (

    select * from {{ ref('stg_study__adaptive_gains') }}

),

pairs as (

    select
        method_pairs.*,
        searches.search,
        scopes.threshold_scope
    from method_pairs
    cross join (values ('exact'), ('binned10')) as searches (search)
    cross join (values ('per_relation'), ('all')) as scopes (threshold_scope)

),

averaged as (

    select
        pair_id,
        search,
        threshold_scope,
        count(*) as n_splits,
        avg(accuracy_adaptive) as accuracy_adaptive,
        avg(accuracy_always) as accuracy_always,
        avg(accuracy_never) as accuracy_never,
        avg(accuracy_best_of_both) as accuracy_best_of_both,
        avg(accuracy_overall) as accuracy_overall,
        avg(share_retrieved) as share_retrieved,
        stddev_samp(accuracy_adaptive) as sd_over_splits,
        quantile_cont(accuracy_adaptive, 0.025) as split_low,
        quantile_cont(accuracy_adaptive, 0.975) as split_high
    from split_accuracy
    group by pair_id, search, threshold_scope

),

final as (

    select
        pairs.* exclude (pair_id, n_missing_parametric_correct, n_missing_retrieval_correct),  -- noqa: RF02
        coalesce(averaged.n_splits, 0) as n_splits,
        averaged.* exclude (pair_id, search, threshold_scope, n_splits),
        averaged.accuracy_adaptive - greatest(averaged.accuracy_always, averaged.accuracy_never) as gain,
        adaptive_gains.gain_in_sample,
        -- Resamples that are all 0, since one fixed method is best in each, are no interval of width 0 around a loss.
        case
            when averaged.n_splits is null then 'no test questions'
            when adaptive_gains.gain_mean is null then 'not resampled'
            when adaptive_gains.gain_low = adaptive_gains.gain_high then 'resamples do not vary'
        end as gain_ci_undefined,
        case
            when gain_ci_undefined is null then gain + least(adaptive_gains.gain_low - adaptive_gains.gain_mean, 0)
        end as gain_ci_low,
        case
            when gain_ci_undefined is null then gain + greatest(adaptive_gains.gain_high - adaptive_gains.gain_mean, 0)
        end as gain_ci_high
    from pairs
    left join averaged using (pair_id, search, threshold_scope)
    -- By n_questions too: a bootstrap of other questions than these is not theirs.
    left join adaptive_gains
        using (dataset, prompt, model, parametric_method, retrieval_method, n_questions, search, threshold_scope)

)

select * from final
