-- Split -1 fits all rows: the gain of thresholds per relation is the sum of the gains of the relations. A question
-- without a relation takes the threshold for all, and adds what that threshold gains for it.
with thresholds as (

    select * from {{ ref('int_adaptive_thresholds') }}
    where split = -1

),

adaptive_rows as (select * from {{ ref('int_adaptive_rows') }}),

fixed as (

    select
        pair_id,
        search,
        n,
        greatest(n_retrieval - n_parametric, 0) as gain_fixed
    from thresholds
    where relation = 'all'

),

gains as (

    select
        pair_id,
        search,
        if(relation = 'all', 'all', 'per_relation') as threshold_scope,
        gain
    from thresholds
    union all
    select
        thresholds.pair_id,
        thresholds.search,
        'per_relation' as threshold_scope,
        if(
            adaptive_rows.popularity < thresholds.threshold_popularity,
            adaptive_rows.retrieval - adaptive_rows.parametric,
            0
        ) as gain
    from adaptive_rows
    inner join thresholds using (pair_id)
    where adaptive_rows.relation is null and thresholds.relation = 'all'

),

by_scope as (

    select
        pair_id,
        search,
        threshold_scope,
        sum(gain) as gain
    from gains
    group by pair_id, search, threshold_scope

),

final as (

    select
        by_scope.pair_id,
        by_scope.search,
        by_scope.threshold_scope,
        (by_scope.gain - fixed.gain_fixed) / fixed.n as gain_in_sample
    from by_scope
    inner join fixed using (pair_id, search)

)

select * from final
