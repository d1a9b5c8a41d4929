-- A row is retrieved under every candidate above its popularity: its step is the lowest of them.
with adaptive_rows as (

    select * from {{ ref('int_adaptive_rows') }}

),

edges as (

    select * from {{ ref('int_adaptive_edges') }}

),

by_relation as (

    select
        pair_id,
        dataset,
        question_id,
        unnest([relation, 'all']) as relation,
        popularity,
        parametric,
        retrieval
    from adaptive_rows

),

final as (

    select
        by_relation.pair_id,
        by_relation.dataset,
        by_relation.question_id,
        by_relation.relation,
        by_relation.popularity,
        by_relation.parametric,
        by_relation.retrieval,
        min(edges.threshold) as binned_step,
        min(edges.never) as binned_never
    from by_relation
    inner join edges
        on
            by_relation.pair_id = edges.pair_id
            and by_relation.relation = edges.relation
            and by_relation.popularity < edges.threshold
    group by all

)

select * from final
