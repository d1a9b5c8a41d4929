with redirects as (select * from {{ ref('int_redirects') }}),
pages as (select * from {{ ref('stg_retrieval__excluded_pages') }}),
entities as (select * from {{ ref('stg_wikimedia__entities') }}),
article_entities as (select * from {{ ref('int_article_entities') }}),

ambiguous as (

    select distinct
        pages.collection,
        pages.title
    from pages
    inner join entities on regexp_replace(pages.title, ' \(disambiguation\)$', '') = entities.label
    where pages.kind = 'disambiguation'

),

listed as (

    select
        redirects.collection,
        redirects.title,
        'redirect' as kind,
        redirects.article_title,
        redirects.section,
        redirects.n_redirects,
        article_entities.entity_id
    from redirects
    left join article_entities using (collection, article_title)
    union all
    select
        ambiguous.collection,
        ambiguous.title,
        'disambiguation' as kind,
        null as article_title,
        null as section,
        null as n_redirects,
        null as entity_id
    from ambiguous

),

-- A page that changed while a dump was written may be there as both; the redirect leads somewhere.
final as (

    select distinct on (collection, title) *
    from listed
    order by collection asc, title asc, kind desc

)

select * from final
