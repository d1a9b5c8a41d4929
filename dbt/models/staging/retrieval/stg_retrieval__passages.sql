with source as (

    select * from {{ source('lake', 'passages') }}

),

final as (

    select
        passage_id,
        entity_id,
        title,
        position,
        text,
        source,
        collection,
        collection_source,
        collection_date,
        licence
    from source

)

select * from final
