with entities as (select * from {{ ref('stg_wikimedia__entities') }}),
triples as (select * from {{ ref('stg_wikimedia__triples') }}),
popularity as (select * from {{ ref('int_entity_popularity') }}),

subjects as (

    select
        subject_id,
        count(*) as n_facts
    from triples
    group by subject_id

),

final as (

    select
        entities.entity_id,
        entities.label,
        entities.aliases,
        entities.description,
        entities.article_title,
        entities.sitelinks,
        popularity.popularity,
        popularity.popularity_measure,
        popularity.n_popularity_months,
        coalesce(subjects.n_facts, 0) as n_facts,
        entities.source
    from entities
    left join popularity using (entity_id)
    left join subjects on entities.entity_id = subjects.subject_id

)

select * from final
