with page_views as (

    select * from {{ ref('stg_wikimedia__page_views') }}

),

entities as (

    select * from {{ ref('stg_wikimedia__entities') }}

),

final as (

    select
        entity_id,
        'page_views' as measure,
        month,
        views::double as popularity,
        source
    from page_views
    union all
    select
        entity_id,
        'sitelinks' as measure,
        null::varchar as month,
        sitelinks::double as popularity,
        source
    from entities

)

select * from final
