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

exact as (

    select
        pair_id,
        split,
        relation,
        'exact' as search,
        lead(popularity, 1, 'infinity'::double) over by_popularity as threshold,
        min(popularity) over (partition by pair_id, split, relation) as never,
        n,
        n_parametric,
        n_retrieval
    from by_popularity
    window by_popularity as (partition by pair_id, split, relation order by popularity)

),

binned as (

    select
        pair_id,
        split,
        relation,
        'binned10' as search,
        binned_step as threshold,
        min(binned_never) as never,
        count(*) as n,
        sum(parametric)::bigint as n_parametric,
        sum(retrieval)::bigint as n_retrieval
    from training
    group by pair_id, split, relation, binned_step

),

final as (

    select * from exact
    union all
    select * from binned

)

select * from final
