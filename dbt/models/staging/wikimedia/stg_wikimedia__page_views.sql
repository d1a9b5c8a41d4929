with source as (

    select * from {{ source('lake', 'page_views') }}

),

final as (

    select
        entity_id,
        article_title,
        month,
        views,
        source
    from source

)

select * from final
