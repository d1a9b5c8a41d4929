with passages as (select * from {{ ref('stg_retrieval__cited_passages') }}),
entities as (select * from {{ ref('int_passage_entities') }}),
retrieved_passages as (select * from {{ ref('stg_retrieval__retrieved_passages') }}),
answers as (select * from {{ ref('stg_generation__candidate_answers') }}),

-- The whole corpus stays in the lake, because it may be far larger than all other published tables. A passage may have
-- been found for a dataset that the study has no longer.
final as (

    select
        passages.passage_id,
        entities.entity_id,
        passages.title,
        passages.position,
        passages.text,
        passages.source,
        passages.collection,
        passages.collection_source,
        passages.collection_date,
        passages.licence,
        passages.section,
        passages.revision,
        passages.url,
        passages.revision_date
    from passages
    inner join entities using (passage_id)
    where
        passages.passage_id in (select retrieved_passages.passage_id from retrieved_passages)
        or passages.passage_id in (select unnest(answers.passage_ids) from answers)

)

select * from final
