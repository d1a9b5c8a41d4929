with answers as (

    {{ without_doubles(ref('stg_generation__answers'), 'dataset, question_id, model, method, prompt') }}

),

found as (

    select
        dataset,
        question_id,
        retriever,
        list(passage_id) as passage_ids,
        coalesce(list(passage_id) filter (where has_answer), []) as answering_ids
    from {{ ref('stg_retrieval__retrieved_passages') }}
    group by dataset, question_id, retriever

),

generated_passages as (select * from {{ ref('int_generated_passages') }}),
imported_answers as (select * from {{ ref('stg_imports__answers') }}),
latencies as (select * from {{ ref('int_latencies') }}),

-- A model may read several passages. Without an answer in those that are known, an unknown one makes has_answer null.
final as (

    select
        answers.*,
        questions.relation,
        questions.subject_id,
        questions.cluster_id,
        questions.subject,
        questions.question,
        questions.gold_answers,
        questions.subject_popularity,
        questions.popularity_measure,
        questions.n_popularity_months,
        case
            when list_has_any(answers.passage_ids, found.answering_ids) then true
            when list_has_all(found.passage_ids, answers.passage_ids) then false
            else coalesce(generated_passages.has_answer, imported_answers.has_answer)
        end as has_answer,
        case
            when list_contains(found.passage_ids, answers.passage_id)
                then list_contains(found.answering_ids, answers.passage_id)
            else coalesce(generated_passages.has_answer, imported_answers.has_answer)
        end as first_has_answer,
        latencies.median_ms as single_latency_ms
    from answers
    left join generated_passages using (dataset, question_id, model, passage_id)
    left join imported_answers using (dataset, question_id, model, method, prompt)
    left join latencies using (model, method, prompt)
    left join {{ ref('int_questions') }} as questions using (dataset, question_id)
    left join found
        on
            answers.dataset = found.dataset
            and answers.question_id = found.question_id
            and answers.method = found.retriever

)

select * from final
