with source as (

    select * from {{ source('lake', 'page_views') }}

),

entities as (

    select * from {{ ref('stg_wikimedia__entities') }}

),

-- The lake keeps months that were fetched for an earlier source of the study. Every sandbox world gives the identifiers
-- to other entities, so there the title must match too. A real article may have been renamed since.
final as (

    select
        source.entity_id,
        source.article_title,
        source.month,
        source.views,
        source.source,
        -- Months stored before redirects were looked up count the title that the entity linked to.
        coalesce(source.redirects, 'ignore') as redirects,
        source.resolved_title,
        source.n_redirects
    from source
    inner join entities
        on
            source.entity_id = entities.entity_id
            and source.source = if(entities.source in ('wikidata', 'imported'), 'wikimedia', entities.source)
            and (entities.source != 'sandbox' or source.article_title = entities.article_title)

)

select * from final
