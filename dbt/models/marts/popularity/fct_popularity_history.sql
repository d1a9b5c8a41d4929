with page_views as (

    select * from {{ ref('stg_wikimedia__page_views') }}

),

entities as (

    select * from {{ ref('stg_wikimedia__entities') }}

),

imported as (

    select * from {{ ref('stg_imports__popularity') }}

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
    union all
    select
        entity_id,
        'imported' as measure,
        null::varchar as month,
        popularity,
        dataset as source
    from imported

)

select * from final
