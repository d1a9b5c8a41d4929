with questions as (

    select * from {{ ref('int_questions') }}

),

majority_answers as (

    select * from {{ ref('int_majority_answers') }}

),

golds as (

    select
        questions.dataset,
        questions.question_id,
        questions.subject,
        majority_answers.majority_answer,
        unnest(questions.gold_answers) as gold
    from questions
    left join majority_answers using (dataset, relation)

),

-- Both guesses, the subject's name and the relation's most frequent answer, are judged like any other answer. A question
-- without a subject, or without a relation, is left out of the share of that guess.
judged as (

    select
        dataset,
        question_id,
        bool_or({{ popqa_match('subject', 'gold') }}) as is_in_subject,
        bool_or({{ popqa_match('majority_answer', 'gold') }}) as is_majority
    from golds
    group by dataset, question_id

),

counted as (

    select
        questions.dataset,
        {{ relation_groups('questions.relation') }} as relation,
        count(*) as n,
        count(questions.subject) as n_with_subject,
        count(questions.relation) as n_with_relation,
        count(*) filter (where judged.is_in_subject) as n_answer_in_subject,
        count(*) filter (where judged.is_majority) as n_correct_majority
    from questions
    left join judged using (dataset, question_id)
    group by questions.dataset, questions.relation

),

summed as (

    select
        dataset,
        relation,
        sum(n)::bigint as n,
        sum(n_with_subject)::bigint as n_with_subject,
        sum(n_with_relation)::bigint as n_with_relation,
        sum(n_answer_in_subject)::bigint as n_answer_in_subject,
        sum(n_correct_majority)::bigint as n_correct_majority
    from counted
    group by dataset, relation

),

final as (

    select
        summed.*,
        majority_answers.majority_answer,
        {{ rate('n_answer_in_subject', 'n_with_subject', 'share_answer_in_subject') }},
        {{ rate('n_correct_majority', 'n_with_relation', 'accuracy_majority') }}
    from summed
    left join majority_answers using (dataset, relation)

)

select * from final
