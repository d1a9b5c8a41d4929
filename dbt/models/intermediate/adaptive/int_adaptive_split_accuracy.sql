with test_sums as (select * from {{ ref('int_adaptive_test_sums') }}),
thresholds as (select * from {{ ref('int_adaptive_thresholds') }}),
method_pairs as (select * from {{ ref('int_method_pairs') }}),

tested as (

    select
        pair_id,
        split,
        search,
        threshold_scope,
        sum(n)::bigint as n,
        sum(n_adaptive) / sum(n) as accuracy_adaptive,
        sum(n_retrieval) / sum(n) as accuracy_always,
        sum(n_parametric) / sum(n) as accuracy_never,
        sum(n_either) / sum(n) as accuracy_best_of_both,
        sum(n_retrieved) / sum(n) as share_retrieved
    from test_sums
    group by pair_id, split, search, threshold_scope

),

-- The fixed method that was better in training, or never retrieving if both are equally good.
compared as (

    select
        tested.*,
        coalesce(thresholds.n_retrieval > thresholds.n_parametric, false) as is_always_better
    from tested
    left join thresholds
        on
            tested.pair_id = thresholds.pair_id
            and tested.split = thresholds.split
            and tested.search = thresholds.search
            and thresholds.relation = 'all'

),

-- Questions without popularity also use that method.
final as (

    select
        compared.* exclude (is_always_better),  -- noqa: RF02
        if(compared.is_always_better, compared.accuracy_always, compared.accuracy_never) as accuracy_fixed,
        (
            compared.accuracy_adaptive * method_pairs.n_questions
            + if(
                compared.is_always_better,
                method_pairs.n_missing_retrieval_correct,
                method_pairs.n_missing_parametric_correct
            )
        ) / (method_pairs.n_questions + method_pairs.n_missing_popularity) as accuracy_overall
    from compared
    inner join method_pairs using (pair_id)

)

select * from final
