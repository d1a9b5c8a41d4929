{{ config(materialized='view') }}

-- Only candidates that retrieve more rows than the one below can win: the others tie with it, and ties retrieve less.
with training as (

    select * from {{ ref('int_adaptive_training') }}

),

by_popularity as (

    select
        pair_id,
        split,
        relation,
        popularity,
        count(*) as n,
        sum(parametric)::bigint as n_parametric,
        sum(retrieval)::bigint as n_retrieval
    from training
    group by pair_id, split, relation, popularity

),

by_binned_step as (

    select
        pair_id,
        split,
        relation,
        binned_step as threshold,
        min(binned_never) as never,
        count(*) as n,
        sum(parametric)::bigint as n_parametric,
        sum(retrieval)::bigint as n_retrieval
    from training
    group by pair_id, split, relation, binned_step

),

final as (

    select
        * exclude (popularity),
        'exact' as search,
        lead(popularity, 1, 'infinity'::double) over rising as threshold,
        first_value(popularity) over rising as never,
        row_number() over rising as position,
        sum(n_retrieval - n_parametric) over rising as gain
    from by_popularity
    window rising as (partition by pair_id, split, relation order by popularity)
    union all by name
    select
        *,
        'binned10' as search,
        row_number() over stepwise as position,
        sum(n_retrieval - n_parametric) over stepwise as gain
    from by_binned_step
    window stepwise as (partition by pair_id, split, relation order by threshold)

)

select * from final
