with linking as (select * from {{ ref('stg_imports__entity_linking') }}),

-- Reference questions have no relations, so they already have a row for all.
by_relation as (

    select
        * exclude (relation),
        unnest(list_distinct([relation, 'all'])) as relation
    from linking

),

summed as (

    select
        dataset,
        relation,
        linker,
        sum(n_questions)::bigint as n_questions,
        sum(n_linked)::bigint as n_linked,
        sum(n_no_entity)::bigint as n_no_entity,
        sum(n_several_entities)::bigint as n_several_entities,
        sum(n_put_aside)::bigint as n_put_aside,
        sum(n_most_popular)::bigint as n_most_popular
    from by_relation
    group by dataset, relation, linker

),

-- A question that is not linked has no subject, so each is a cluster of its own.
counted as (

    select
        *,
        {{ sums_of_independent('n_linked', 'n_questions') }} as linked
    from summed

),

final as (

    select
        * exclude (linked),
        {{ rate('linked', 'share_linked', 'ci') }}
    from counted

)

select * from final
