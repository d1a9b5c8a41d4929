with answers as (

    {{ without_doubles(
        ref('stg_generation__candidate_answers'),
        'dataset, question_id, paraphrase_id, model, method, prompt'
    ) }}

),

final as (

    select
        answers.*,
        questions.relation,
        questions.subject,
        questions.objects[1] as gold_answer,
        questions.subject_popularity,
        paraphrases.paraphrase,
        patterns.lemma,
        patterns.tense,
        {{ is_fitting_article('patterns.article', 'questions.objects[1]') }} as has_fitting_article
    from answers
    inner join {{ ref('int_questions') }} as questions using (dataset, question_id)
    inner join {{ ref('stg_questions__paraphrases') }} as paraphrases using (dataset, question_id, paraphrase_id)
    inner join {{ ref('stg_questions__patterns') }} as patterns
        on
            answers.dataset = patterns.dataset
            and answers.paraphrase_id = patterns.paraphrase_id
            and questions.relation = patterns.relation

)

select * from final
