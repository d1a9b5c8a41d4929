with redirects as (

    select * from {{ ref('int_redirects') }}

),

pages as (

    select * from {{ ref('stg_retrieval__left_out_pages') }}

),

entities as (

    select * from {{ ref('stg_wikimedia__entities') }}

),

article_titles as (

    select distinct
        collection,
        article_title,
        unnest([title, article_title]) as title
    from redirects

),

-- The entity whose article it is, under its present title or under the title of a redirect to it.
article_entities as (

    select
        article_titles.collection,
        article_titles.article_title,
        min(entities.entity_id) as entity_id
    from article_titles
    inner join entities on article_titles.title = entities.article_title
    group by article_titles.collection, article_titles.article_title
    having count(distinct entities.entity_id) = 1

),

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
