{{ config(materialized='view') }}

-- A relation absent from training takes the threshold for all; where nothing was trained on, nothing is retrieved.
with adaptive_rows as (

    select * from {{ ref('int_adaptive_rows') }}

),

splits as (

    select * from {{ ref('int_adaptive_splits') }}

),

thresholds as (

    select * from {{ ref('int_adaptive_thresholds') }}

),

searches as (

    select unnest(['exact', 'binned10']) as search

),

test_rows as (

    select
        adaptive_rows.*,
        splits.split,
        searches.search
    from adaptive_rows
    inner join splits
        on
            adaptive_rows.dataset = splits.dataset
            and adaptive_rows.question_id = splits.question_id
            and not splits.is_training
    cross join searches

),

final as (

    select
        test_rows.pair_id,
        test_rows.split,
        test_rows.search,
        test_rows.popularity,
        test_rows.parametric,
        test_rows.retrieval,
        test_rows.parametric_device_seconds,
        test_rows.retrieval_device_seconds,
        test_rows.parametric_cost_usd,
        test_rows.retrieval_cost_usd,
        unnest(['per_relation', 'all']) as threshold_scope,
        unnest([
            coalesce(own.threshold, overall.threshold, 0), coalesce(overall.threshold, 0)
        ]) as threshold
    from test_rows
    left join thresholds as own
        on
            test_rows.pair_id = own.pair_id
            and test_rows.split = own.split
            and test_rows.search = own.search
            and test_rows.relation = own.relation
    left join thresholds as overall
        on
            test_rows.pair_id = overall.pair_id
            and test_rows.split = overall.split
            and test_rows.search = overall.search
            and overall.relation = 'all'

)

select * from final
