with page_views as (select * from {{ ref('stg_wikimedia__page_views') }}),
entities as (select * from {{ ref('stg_wikimedia__entities') }}),
imported as (select * from {{ ref('stg_imports__popularity') }}),

final as (

    select
        entity_id,
        'page_views' as measure,
        month,
        views::double as popularity,
        source,
        redirects,
        resolved_title,
        n_redirects,
        agent
    from page_views
    union all
    select
        entity_id,
        'sitelinks' as measure,
        null::varchar as month,
        sitelinks::double as popularity,
        source,
        null::varchar as redirects,
        null::varchar as resolved_title,
        null::integer as n_redirects,
        null::varchar as agent
    from entities
    union all
    select
        entity_id,
        'imported' as measure,
        null::varchar as month,
        popularity,
        dataset as source,
        null::varchar as redirects,
        null::varchar as resolved_title,
        null::integer as n_redirects,
        null::varchar as agent
    from imported

)

select * from final
