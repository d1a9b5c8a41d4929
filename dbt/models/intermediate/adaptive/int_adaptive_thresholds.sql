with candidates as (

    select * from {{ ref('int_adaptive_candidates') }}

),

-- Of equally good candidates the one in the lowest position wins; one that gains nothing loses to never retrieving.
final as (

    select
        pair_id,
        split,
        relation,
        search,
        case
            when max(gain) > 0 then arg_max(threshold, gain - position * 1e-9)
            else min(never)
        end as threshold,
        greatest(max(gain), 0)::bigint as gain,
        sum(n)::bigint as n,
        sum(n_parametric)::bigint as n_parametric,
        sum(n_retrieval)::bigint as n_retrieval
    from candidates
    group by pair_id, split, relation, search

)

select * from final
