with source as (

    select * from {{ source('lake', 'entities') }}

),

final as (

    select
        entity_id,
        label,
        aliases,
        description,
        article_title,
        sitelinks,
        source
    from source

)

select * from final
