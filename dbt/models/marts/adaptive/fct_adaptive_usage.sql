with test_sums as (

    select * replace ({{ relation_groups() }} as relation)
    from {{ ref('int_adaptive_test_sums') }}

),

method_pairs as (select * from {{ ref('int_method_pairs') }}),

-- Split -1 fits every question, so it has all relations, even those that no split tests.
fits as (

    select
        thresholds.pair_id,
        thresholds.relation,
        thresholds.search,
        thresholds.n,
        scopes.threshold_scope
    from {{ ref('int_adaptive_thresholds') }} as thresholds
    cross join (values ('per_relation'), ('all')) as scopes (threshold_scope)
    where thresholds.split = -1

),

by_split as (

    select
        pair_id,
        split,
        relation,
        search,
        threshold_scope,
        sum(n_retrieved) / sum(n) as share_retrieved,
        sum(n_adaptive) / sum(n) as accuracy_adaptive
    from test_sums
    group by pair_id, split, relation, search, threshold_scope

),

averaged as (

    select
        pair_id,
        relation,
        search,
        threshold_scope,
        count(*) as n_splits,
        avg(share_retrieved) as share_retrieved,
        avg(accuracy_adaptive) as accuracy_adaptive
    from by_split
    group by pair_id, relation, search, threshold_scope

),

final as (

    select
        method_pairs.dataset,
        method_pairs.prompt,
        method_pairs.model,
        method_pairs.parametric_method,
        method_pairs.retrieval_method,
        fits.* exclude (pair_id),  -- noqa: RF02
        coalesce(averaged.n_splits, 0) as n_splits,
        averaged.share_retrieved,
        averaged.accuracy_adaptive,
        case when averaged.n_splits is null then 'no test question' end as undefined
    from fits
    inner join method_pairs using (pair_id)
    left join averaged using (pair_id, relation, search, threshold_scope)

)

select * from final
