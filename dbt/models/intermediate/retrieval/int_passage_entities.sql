with passages as (select * from {{ ref('stg_retrieval__cited_passages') }}),
article_entities as (select * from {{ ref('int_article_entities') }}),

-- The lake links a passage by its title. Wikidata may still have the title that the article had before it was moved.
final as (

    select
        passages.passage_id,
        passages.title,
        coalesce(passages.entity_id, article_entities.entity_id) as entity_id
    from passages
    left join article_entities
        on passages.collection = article_entities.collection and passages.title = article_entities.article_title

)

select * from final
