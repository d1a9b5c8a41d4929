with questions as (

    select * from {{ ref('int_questions') }}

),

paraphrases as (

    select * from {{ ref('stg_questions__paraphrases') }}

),

wordings as (

    select
        questions.relation,
        min(paraphrases.template) filter (where paraphrases.paraphrase_id = 0) as template,
        count(distinct paraphrases.template) filter (where paraphrases.paraphrase_id > 0) as n_paraphrases
    from paraphrases
    inner join questions
        on paraphrases.dataset = questions.dataset and paraphrases.question_id = questions.question_id
    group by questions.relation

),

counted as (

    select
        relation,
        min(property_id) as property_id,
        count(*) as n_questions,
        count(subject_popularity) as n_questions_with_popularity
    from questions
    group by relation

),

final as (

    select
        counted.relation,
        counted.property_id,
        wordings.template,
        coalesce(wordings.n_paraphrases, 0) as n_paraphrases,
        counted.n_questions,
        counted.n_questions_with_popularity
    from counted
    left join wordings on counted.relation = wordings.relation

)

select * from final
