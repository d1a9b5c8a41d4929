with averages as (

    select
        pair_id,
        search,
        threshold_scope,
        count(*) as n_splits,
        {%- for policy in ['adaptive', 'always', 'never', 'best_of_both', 'fixed', 'overall'] %}
        avg(accuracy_{{ policy }}) as accuracy_{{ policy }},
        {%- endfor %}
        avg(share_retrieved) as share_retrieved,
        stddev_samp(accuracy_adaptive) as sd_over_splits,
        quantile_cont(accuracy_adaptive, 0.025) as split_low,
        quantile_cont(accuracy_adaptive, 0.975) as split_high,
        -- of the mean over splits, if other splits of the same questions had been drawn; null for a single split
        var_samp(accuracy_adaptive - accuracy_fixed) / count(*) as gain_variance_of_splits
    from {{ ref('int_adaptive_split_accuracy') }}
    group by pair_id, search, threshold_scope

),

pairs as (

    select
        method_pairs.*,
        searches.search,
        scopes.threshold_scope
    from {{ ref('int_method_pairs') }} as method_pairs
    cross join (values ('exact'), ('binned10')) as searches (search)
    cross join (values ('per_relation'), ('all')) as scopes (threshold_scope)

),

-- Two variances add up: that of the drawn questions and that of the splits.
final as (

    select
        pairs.* exclude (pair_id, n_missing_parametric_correct, n_missing_retrieval_correct),  -- noqa: RF02
        coalesce(averages.n_splits, 0) as n_splits,
        averages.* exclude (pair_id, search, threshold_scope, n_splits, gain_variance_of_splits),  -- noqa: RF02
        averages.accuracy_adaptive - greatest(averages.accuracy_always, averages.accuracy_never) as gain,
        in_sample.gain_in_sample,
        adaptive_gains.share_departing,
        case
            when averages.n_splits is null then 'no test questions'
            when averages.n_splits < 2 then 'fewer than two splits'
            when adaptive_gains.n_resamples is null then 'not resampled'
            else adaptive_gains.undefined
        end as gain_ci_undefined,
        if(
            gain_ci_undefined is null,
            1.959963984540054::double
            * sqrt(adaptive_gains.gain_standard_error ** 2 + averages.gain_variance_of_splits),
            null
        ) as gain_ci_half,
        averages.accuracy_adaptive - averages.accuracy_fixed - gain_ci_half as gain_ci_low,
        averages.accuracy_adaptive - averages.accuracy_fixed + gain_ci_half as gain_ci_high
    from pairs
    left join averages using (pair_id, search, threshold_scope)
    left join {{ ref('int_adaptive_in_sample') }} as in_sample using (pair_id, search, threshold_scope)
    -- Also by n_questions: a bootstrap over other questions does not belong to this row.
    left join {{ ref('int_adaptive_gains') }} as adaptive_gains
        using (dataset, prompt, model, parametric_method, retrieval_method, n_questions, search, threshold_scope)

)

select * exclude (gain_ci_half) from final
