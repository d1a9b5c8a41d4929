with test_sums as (

    select * from {{ ref('int_adaptive_test_sums') }}

),

thresholds as (

    select * from {{ ref('int_adaptive_thresholds') }}

),

method_pairs as (

    select * from {{ ref('int_method_pairs') }}

),

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

-- Questions without popularity take the fixed method that was better in training; equal ones do not retrieve.
final as (

    select
        tested.*,
        (
            tested.accuracy_adaptive * method_pairs.n_questions
            + case
                when coalesce(thresholds.n_retrieval > thresholds.n_parametric, false)
                    then method_pairs.n_missing_retrieval_correct
                else method_pairs.n_missing_parametric_correct
            end
        ) / (method_pairs.n_questions + method_pairs.n_missing_popularity) as accuracy_overall
    from tested
    inner join method_pairs on tested.pair_id = method_pairs.pair_id
    left join thresholds
        on
            tested.pair_id = thresholds.pair_id
            and tested.split = thresholds.split
            and tested.search = thresholds.search
            and thresholds.relation = 'all'

)

select * from final
