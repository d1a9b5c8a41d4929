with answers as (select * from {{ ref('int_answers') }}),
question_passages as (select * from {{ ref('int_question_passages') }}),

read_passages as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.method,
        answers.question_id,
        question_passages.passage_title,
        question_passages.passage_entity_id,
        question_passages.passage_of,
        question_passages.passage_id = answers.passage_id as is_first
    from answers
    inner join question_passages
        on
            answers.dataset = question_passages.dataset
            and answers.question_id = question_passages.question_id
            and list_contains(answers.passage_ids, question_passages.passage_id)

),

final as (

    select
        dataset,
        prompt,
        model,
        method,
        question_id,
        max(passage_title) filter (where is_first) as passage_title,
        max(passage_entity_id) filter (where is_first) as passage_entity_id,
        case
            when bool_or(passage_of = 'subject') then 'subject'
            when bool_or(passage_of = 'namesake') then 'namesake'
            when bool_or(passage_of = 'other') then 'other'
        end as passage_of
    from read_passages
    group by dataset, prompt, model, method, question_id

)

select * from final
