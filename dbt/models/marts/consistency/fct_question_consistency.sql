with answers as (

    select * from {{ ref('int_paraphrase_answers') }}

),

paraphrases as (

    select * from {{ ref('stg_questions__paraphrases') }}

),

similarities as (

    select * from {{ ref('int_answer_similarities') }}

),

asked as (

    select
        dataset,
        question_id,
        count(*) as n_paraphrases
    from paraphrases
    group by dataset, question_id

),

answered as (

    select
        dataset,
        prompt,
        question_id,
        relation,
        model,
        count(*) as n_answers,
        count(*) filter (where prediction = '') as n_empty_answers,
        bool_or(is_correct) filter (where paraphrase_id = 0) as is_correct
    from answers
    group by dataset, prompt, question_id, relation, model

),

-- Null unless there are two answers, none is missing, and all are embedded.
final as (

    select
        answered.*,
        asked.n_paraphrases,
        case
            when
                answered.n_answers >= 2
                and answered.n_answers = asked.n_paraphrases
                and similarities.n_pairs = answered.n_answers * (answered.n_answers - 1) // 2
                then similarities.mean_similarity
        end as scons,
        null::double as cert
    from answered
    left join asked using (dataset, question_id)
    left join similarities using (dataset, prompt, question_id, model)

)

select * from final
