with candidates as (

    select * from {{ ref('int_adaptive_candidates') }}

),

-- Gain of a threshold over never retrieving, in right answers.
gains as (

    select
        *,
        sum(n_retrieval - n_parametric) over (
            partition by pair_id, split, relation, search
            order by threshold
            rows between unbounded preceding and current row
        )::bigint as gain
    from candidates

),

best as (

    select
        *,
        max(gain) over (partition by pair_id, split, relation, search) as best_gain
    from gains

),

final as (

    select
        pair_id,
        split,
        relation,
        search,
        case
            when max(best_gain) > 0 then min(threshold) filter (where gain = best_gain)
            else min(never)
        end as threshold,
        greatest(max(best_gain), 0) as gain,
        sum(n)::bigint as n,
        sum(n_parametric)::bigint as n_parametric,
        sum(n_retrieval)::bigint as n_retrieval
    from best
    group by pair_id, split, relation, search

)

select * from final
