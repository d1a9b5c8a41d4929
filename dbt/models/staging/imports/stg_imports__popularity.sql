with source as (

    select * from {{ source('lake', 'imported_popularity') }}

),

final as (

    select
        entity_id,
        popularity,
        dataset
    from source

)

select * from final
