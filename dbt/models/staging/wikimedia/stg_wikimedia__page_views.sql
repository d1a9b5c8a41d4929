-- The lake keeps months that were fetched for an earlier source of the study. Every sandbox world gives the identifiers
-- to other entities, so there the title must match too. A real article may have been renamed since.
select
    page_views.* exclude (redirects, agent),  -- noqa: RF02
    -- Months stored before these were looked up count the title that the entity linked to, and users.
    coalesce(page_views.redirects, 'ignore') as redirects,
    coalesce(page_views.agent, 'user') as agent
from {{ source('lake', 'page_views') }} as page_views
inner join {{ source('lake', 'entities') }} as entities
    on
        page_views.entity_id = entities.entity_id
        and page_views.source = if(entities.source in ('wikidata', 'imported'), 'wikimedia', entities.source)
        and (entities.source != 'sandbox' or page_views.article_title = entities.article_title)
