with passages as (

    select * from {{ ref('stg_retrieval__cited_passages') }}

),

retrieved_passages as (

    select * from {{ ref('stg_retrieval__retrieved_passages') }}

),

answers as (

    select * from {{ ref('stg_generation__candidate_answers') }}

),

-- The whole corpus stays in the lake, because it may be far larger than all other published tables. A passage may have
-- been found for a dataset that the study has no longer.
final as (

    select
        passage_id,
        entity_id,
        title,
        position,
        text,
        source,
        collection,
        collection_source,
        collection_date,
        licence,
        section,
        revision,
        url,
        revision_date
    from passages
    where
        passage_id in (select retrieved_passages.passage_id from retrieved_passages)
        or passage_id in (select unnest(answers.passage_ids) from answers)

)

select * from final
