with redirects as (

    select
        collection,
        title,
        target_title
    from {{ ref('stg_retrieval__excluded_pages') }}
    where kind = 'redirect'

),

passages as (select * from {{ ref('stg_retrieval__cited_passages') }}),
entities as (select * from {{ ref('stg_wikimedia__entities') }}),

collections as (

    select distinct collection
    from redirects

),

-- The whole list stays in the lake, because a wiki has more redirects than articles.
named as (

    select
        collection,
        title
    from passages
    where collection is not null
    union
    select
        collections.collection,
        entities.article_title as title
    from entities
    cross join collections
    where entities.article_title is not null

),

-- An entity's article may have been moved: its old title is a redirect then.
targets as (

    select
        collection,
        title
    from named
    union
    select
        redirects.collection,
        redirects.target_title as title
    from redirects
    inner join named using (collection, title)

),

final as (

    select
        targets.collection,
        targets.title
    from targets
    left join redirects using (collection, title)
    where redirects.title is null and targets.title is not null

)

select * from final
