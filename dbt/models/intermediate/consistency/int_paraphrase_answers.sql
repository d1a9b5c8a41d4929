with answers as (

    select * from {{ ref('stg_generation__paraphrase_answers') }}

),

paraphrases as (

    select * from {{ ref('stg_questions__paraphrases') }}

),

questions as (

    select * from {{ ref('int_questions') }}

),

final as (

    select
        answers.*,
        paraphrases.paraphrase,
        questions.relation,
        questions.subject_popularity
    from answers
    left join paraphrases
        on
            answers.dataset = paraphrases.dataset
            and answers.question_id = paraphrases.question_id
            and answers.paraphrase_id = paraphrases.paraphrase_id
    left join questions
        on
            answers.dataset = questions.dataset
            and answers.question_id = questions.question_id

)

select * from final
