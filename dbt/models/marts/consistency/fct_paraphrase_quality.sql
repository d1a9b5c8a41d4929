with similarities as (select * from {{ ref('stg_questions__paraphrase_similarities') }}),
questions as (select * from {{ ref('stg_questions__questions') }}),

by_relation as (

    select
        similarities.dataset,
        questions.relation,
        any_value(similarities.encoder) as encoder,
        count(distinct similarities.question_id) as n_questions,
        count(*) as n_paraphrases,
        avg(similarities.cosine) as mean_cosine,
        min(similarities.cosine) as least_cosine
    from similarities
    inner join questions using (dataset, question_id)
    group by similarities.dataset, questions.relation

),

-- All relations have equal weight, whatever their number of questions and paraphrases. Questions without a relation
-- have together the weight of one relation.
of_all as (

    select
        dataset,
        'all' as relation,
        any_value(encoder) as encoder,
        sum(n_questions)::bigint as n_questions,
        sum(n_paraphrases)::bigint as n_paraphrases,
        avg(mean_cosine) as mean_cosine,
        min(least_cosine) as least_cosine
    from by_relation
    group by dataset

),

final as (

    select * from by_relation
    where relation is not null
    union all by name
    select * from of_all

)

select * from final
