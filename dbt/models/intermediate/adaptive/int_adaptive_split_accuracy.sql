with test_answers as (

    select * from {{ ref('int_adaptive_test_answers') }}

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
        count(*) as n,
        avg(case when popularity < threshold then retrieval else parametric end) as accuracy_adaptive,
        avg(retrieval) as accuracy_always,
        avg(parametric) as accuracy_never,
        avg(greatest(retrieval, parametric)) as accuracy_oracle,
        avg((popularity < threshold)::integer) as share_retrieved
    from test_answers
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
