with answers as (select * from {{ ref('int_answers') }}),
passages as (select * from {{ ref('int_passage_entities') }}),
entities as (select * from {{ ref('stg_wikimedia__entities') }}),

read_passages as (

    select distinct
        dataset,
        question_id,
        subject_id,
        subject,
        unnest(passage_ids) as passage_id
    from answers

),

described as (

    select
        read_passages.*,
        subjects.article_title as subject_title,
        passages.entity_id,
        passages.title,
        lower(read_passages.subject) as subject_name,
        lower(passages.title) as lower_title,
        [lower(abouts.label)] || string_split(lower(array_to_string(abouts.aliases, chr(31))), chr(31)) as names
    from read_passages
    inner join passages using (passage_id)
    left join entities as subjects on read_passages.subject_id = subjects.entity_id
    left join entities as abouts on passages.entity_id = abouts.entity_id

),

-- A title that distinguishes an article from its namesakes has a part in brackets or, for places, after a comma. If the
-- passage names no entity, titles decide. If the subject's title is not known either, the result is null. It is also
-- null for a question without a subject.
final as (

    select
        dataset,
        question_id,
        passage_id,
        entity_id as passage_entity_id,
        title as passage_title,
        case
            when subject_id is null then null
            when entity_id = subject_id or (entity_id is null and title = subject_title) then 'subject'
            when entity_id is null and subject_title is null then null
            when
                subject_name in (
                    lower_title, regexp_replace(lower_title, '\s*\([^()]*\)$', ''), split_part(lower_title, ', ', 1)
                )
                or list_contains(names, subject_name)
                then 'namesake'
            else 'other'
        end as passage_of
    from described

)

select * from final
