with source as (

    select * from {{ source('lake', 'cited_passages') }}

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
        licence,
        section,
        revision,
        url,
        revision_date
    from source

)

select * from final
