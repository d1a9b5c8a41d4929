with questions as (select * from {{ ref('int_questions') }}),
paraphrases as (select * from {{ ref('stg_questions__paraphrases') }}),
datasets as (select * from {{ ref('stg_study__datasets') }}),
declared as (select * from {{ ref('stg_study__relations') }}),

wordings as (

    select
        questions.relation,
        count(distinct paraphrases.template) as n_paraphrases
    from paraphrases
    inner join questions using (dataset, question_id)
    where paraphrases.paraphrase_id > 0
    group by questions.relation

),

counted as (

    select
        relation,
        dataset,
        min(property_id) as property_id,
        count(*) as n_questions,
        count(subject_popularity) as n_questions_with_popularity
    from questions
    where relation is not null
    group by relation, dataset

),

-- Sets may have a relation of the same name: PopQA's template is shown then, else that of the first set by name.
final as (

    select
        counted.relation,
        coalesce(min(counted.property_id), min(declared.property_id)) as property_id,
        arg_min(declared.template, (declared.relation_set != 'popqa', declared.relation_set)) as template,
        arg_min(declared.statement, (declared.relation_set != 'popqa', declared.relation_set)) as statement,
        coalesce(any_value(wordings.n_paraphrases), 0) as n_paraphrases,
        sum(counted.n_questions)::bigint as n_questions,
        sum(counted.n_questions_with_popularity)::bigint as n_questions_with_popularity
    from counted
    left join datasets using (dataset)
    left join declared
        on datasets.relation_set = declared.relation_set and counted.relation = declared.relation
    left join wordings on counted.relation = wordings.relation
    group by counted.relation

)

select * from final
