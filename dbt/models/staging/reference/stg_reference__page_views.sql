with source as (

    select * from {{ source('lake', 'reference_page_views') }}

),

final as (

    select
        article_title,
        month,
        views
    from source

)

select * from final
