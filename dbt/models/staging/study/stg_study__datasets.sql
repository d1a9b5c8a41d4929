with source as (

    select * from {{ source('lake', 'datasets') }}

),

final as (

    select
        dataset,
        source,
        relation_set,
        relations,
        snapshot
    from source

)

select * from final
