with answers as (

    {{ without_doubles(
        ref('stg_generation__candidate_answers'),
        'dataset, question_id, paraphrase_id, model, method, prompt'
    ) }}

),

-- Patterns before answers: otherwise DuckDB joins each answer with the patterns of all relations first.
patterned as materialized (

    select
        questions.dataset,
        questions.question_id,
        patterns.paraphrase_id,
        questions.relation,
        questions.subject,
        questions.objects[1] as gold_answer,
        questions.subject_popularity,
        patterns.lemma,
        patterns.tense,
        {{ is_fitting_article('patterns.article', 'questions.objects[1]') }} as has_fitting_article
    from {{ ref('int_questions') }} as questions
    inner join {{ ref('stg_questions__patterns') }} as patterns using (dataset, relation)

),

final as (

    select
        answers.*,
        patterned.relation,
        patterned.subject,
        patterned.gold_answer,
        patterned.subject_popularity,
        paraphrases.paraphrase,
        patterned.lemma,
        patterned.tense,
        patterned.has_fitting_article
    from answers
    inner join patterned using (dataset, question_id, paraphrase_id)
    inner join {{ ref('stg_questions__paraphrases') }} as paraphrases using (dataset, question_id, paraphrase_id)

)

select * from final
