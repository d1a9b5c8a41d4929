with source as (

    select * from {{ source('lake', 'entity_linking') }}

),

final as (

    select
        dataset,
        relation,
        linker,
        n_questions,
        n_linked,
        n_no_entity,
        n_several_entities,
        n_put_aside
    from source

)

select * from final
