{{ config(materialized='view') }}

-- A relation without training questions uses the threshold for all, and so does a question without a relation. Without
-- any training question nothing is retrieved.
with adaptive_rows as (select * from {{ ref('int_adaptive_rows') }}),

splits as (

    select * from {{ ref('int_adaptive_splits') }}
    where not is_training

),

thresholds as (

    select
        pair_id,
        split,
        relation,
        max(threshold_popularity) filter (where search = 'exact') as exact_threshold,
        max(threshold_popularity) filter (where search = 'binned10') as binned10_threshold
    from {{ ref('int_adaptive_thresholds') }}
    group by pair_id, split, relation

),

final as (

    select
        adaptive_rows.*,
        splits.split,
        coalesce(own.exact_threshold, overall.exact_threshold, 0) as exact_per_relation,
        coalesce(overall.exact_threshold, 0) as exact_all,
        coalesce(own.binned10_threshold, overall.binned10_threshold, 0) as binned10_per_relation,
        coalesce(overall.binned10_threshold, 0) as binned10_all
    from adaptive_rows
    inner join splits using (dataset, question_id)
    left join thresholds as own
        on
            adaptive_rows.pair_id = own.pair_id
            and splits.split = own.split
            and adaptive_rows.relation = own.relation
    left join thresholds as overall
        on
            adaptive_rows.pair_id = overall.pair_id
            and splits.split = overall.split
            and overall.relation = 'all'

)

select * from final
