with answer_pairs as (

    select * from {{ ref('int_answer_pairs') }}
    where parametric_correct != retrieval_correct

),

answers as (select * from {{ ref('int_answers') }}),
questions as (select * from {{ ref('int_questions') }}),
answer_passages as (select * from {{ ref('int_answer_passages') }}),

final as (

    select
        answer_pairs.dataset,
        answer_pairs.prompt,
        answer_pairs.model,
        answer_pairs.parametric_method,
        answer_pairs.retrieval_method,
        answer_pairs.question_id,
        answer_pairs.relation,
        case when answer_pairs.retrieval_correct then 'rescued' else 'misled' end as effect,
        questions.question,
        questions.gold_answers,
        questions.subject_popularity,
        {{ trimmed('parametric.prediction') }} as parametric_prediction,
        {{ trimmed('retrieval.prediction') }} as retrieval_prediction,
        retrieval.passage_id,
        retrieval.passage_ids,
        retrieval.has_answer,
        answer_passages.passage_title,
        answer_passages.passage_entity_id,
        answer_passages.passage_of
    from answer_pairs
    inner join questions using (dataset, question_id)
    inner join answers as parametric
        on
            answer_pairs.dataset = parametric.dataset
            and answer_pairs.prompt = parametric.prompt
            and answer_pairs.model = parametric.model
            and answer_pairs.question_id = parametric.question_id
            and answer_pairs.parametric_method = parametric.method
    inner join answers as retrieval
        on
            answer_pairs.dataset = retrieval.dataset
            and answer_pairs.prompt = retrieval.prompt
            and answer_pairs.model = retrieval.model
            and answer_pairs.question_id = retrieval.question_id
            and answer_pairs.retrieval_method = retrieval.method
    left join answer_passages
        on
            retrieval.dataset = answer_passages.dataset
            and retrieval.prompt = answer_passages.prompt
            and retrieval.model = answer_passages.model
            and retrieval.question_id = answer_passages.question_id
            and retrieval.method = answer_passages.method

)

select * from final
