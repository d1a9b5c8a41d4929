with thresholds as (select * from {{ ref('int_adaptive_thresholds') }}),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

final as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        thresholds.relation,
        thresholds.search,
        thresholds.threshold_popularity,
        case thresholds.n_retrieved when 0 then 'never' when thresholds.n then 'always' else 'below' end as decision,
        thresholds.n_retrieved / thresholds.n as share_retrieved,
        thresholds.n,
        -- the minimum of SPEC §12
        thresholds.n < 20 as is_chosen_on_few,
        (thresholds.n_parametric + thresholds.gain) / thresholds.n as accuracy,
        thresholds.n_retrieval / thresholds.n as accuracy_always,
        thresholds.n_parametric / thresholds.n as accuracy_never
    from thresholds
    inner join method_pairs using (pair_id)
    where thresholds.split = -1

)

select * from final
