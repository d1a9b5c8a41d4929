with questions as (select * from {{ ref('int_questions_by_relation') }}),
paraphrases as (select * from {{ ref('stg_questions__paraphrases') }}),

-- The wordings of a question include its own; without any, the study has no paraphrases.
final as (

    select
        questions.dataset,
        questions.relation,
        count(distinct questions.question_id) as n_questions,
        nullif(count(paraphrases.question_id), 0) as n_wordings
    from questions
    left join paraphrases using (dataset, question_id)
    group by all

)

select * from final
