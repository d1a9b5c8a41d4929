with source as (

    select * from {{ source('lake', 'datasets') }}

),

final as (

    select
        dataset,
        source,
        relation_set,
        relations,
        snapshot,
        chosen_by
    from source

)

select * from final
