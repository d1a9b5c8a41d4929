with redirects as (select * from {{ ref('int_redirects') }}),
entities as (select * from {{ ref('stg_wikimedia__entities') }}),

-- A title that leads to a section stands for something else than the article does.
article_titles as (

    select distinct
        collection,
        article_title,
        unnest(if(section is null, [title, article_title], [article_title])) as title
    from redirects

),

final as (

    select
        article_titles.collection,
        article_titles.article_title,
        min(entities.entity_id) as entity_id
    from article_titles
    inner join entities on article_titles.title = entities.article_title
    group by article_titles.collection, article_titles.article_title
    having count(distinct entities.entity_id) = 1

)

select * from final
