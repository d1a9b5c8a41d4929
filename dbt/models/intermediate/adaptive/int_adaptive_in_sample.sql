-- Split -1 fits all rows: the gain of thresholds per relation is the sum of the gains of the relations.
with thresholds as (

    select * from {{ ref('int_adaptive_thresholds') }}
    where split = -1

),

fixed as (

    select
        pair_id,
        search,
        n,
        greatest(n_retrieval - n_parametric, 0) as gain_fixed
    from thresholds
    where relation = 'all'

),

by_scope as (

    select
        pair_id,
        search,
        if(relation = 'all', 'all', 'per_relation') as threshold_scope,
        sum(gain) as gain
    from thresholds
    group by all

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
