with questions as (select * from {{ ref('int_questions') }}),
majority_answers as (select * from {{ ref('int_majority_answers') }}),

golds as (

    select
        questions.* exclude (gold_answers),  -- noqa: RF02
        majority_answers.majority_answer,
        unnest(questions.gold_answers) as gold
    from questions
    left join majority_answers using (dataset, relation)

),

-- Both guesses, the subject's name and the relation's most frequent answer, are judged like any other answer.
judged as (

    select
        dataset,
        question_id,
        bool_or({{ popqa_match('subject', 'gold') }}) as is_in_subject,
        bool_or({{ popqa_match('majority_answer', 'gold') }}) as is_majority
    from golds
    group by dataset, question_id

),

grouped as (

    select
        *,  -- noqa: RF02
        {{ relation_groups('questions.relation') }} as relation_group
    from questions
    left join judged using (dataset, question_id)

),

-- A question without a subject, or without a relation, is left out of the share of that guess.
subjects as (

    select
        dataset,
        relation_group as relation,
        cluster_id,
        count(*) as n,
        count(subject) as n_with_subject,
        count(relation) as n_with_relation,
        count(*) filter (where is_in_subject) as n_answer_in_subject,
        count(*) filter (where is_majority) as n_correct_majority
    from grouped
    group by dataset, relation_group, cluster_id

),

counted as (

    select
        dataset,
        relation,
        {{ sums(['n', 'n_with_subject', 'n_with_relation', 'n_answer_in_subject', 'n_correct_majority']) }},
        {{ subject_sums('n_answer_in_subject', 'n_with_subject') }} as in_subject,
        {{ subject_sums('n_correct_majority', 'n_with_relation') }} as majority
    from subjects
    group by dataset, relation

),

final as (

    select
        counted.* exclude (in_subject, majority),  -- noqa: RF02
        majority_answers.majority_answer,
        {{ rate('counted.in_subject', 'share_answer_in_subject') }},
        {{ rate('counted.majority', 'accuracy_majority') }}
    from counted
    left join majority_answers using (dataset, relation)

)

select * from final
