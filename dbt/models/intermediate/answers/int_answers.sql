with answers as (

    {{ without_doubles(ref('stg_generation__answers'), 'dataset, question_id, model, method, prompt') }}

),

questions as (

    select * from {{ ref('int_questions') }}

),

retrieved_passages as (

    select * from {{ ref('stg_retrieval__retrieved_passages') }}

),

generated_passages as (

    select * from {{ ref('int_generated_passages') }}

),

imported_answers as (

    select * from {{ ref('stg_imports__answers') }}

),

latencies as (

    select * from {{ ref('int_latencies') }}

),

-- A question may have the same passage twice. Both rows then have the same has_answer.
passages as (

    select
        dataset,
        question_id,
        retriever,
        passage_id,
        bool_or(has_answer) as has_answer
    from retrieved_passages
    group by dataset, question_id, retriever, passage_id

),

final as (

    select
        answers.*,
        questions.relation,
        questions.subject_id,
        questions.subject,
        questions.question,
        questions.gold_answers,
        questions.subject_popularity,
        questions.popularity_measure,
        questions.n_popularity_months,
        coalesce(passages.has_answer, generated_passages.has_answer, imported_answers.has_answer) as has_answer,
        latencies.median_ms as single_latency_ms
    from answers
    left join generated_passages using (dataset, question_id, model, passage_id)
    left join imported_answers using (dataset, question_id, model, method, prompt)
    left join latencies using (model, method, prompt)
    left join questions using (dataset, question_id)
    left join passages
        on
            answers.dataset = passages.dataset
            and answers.question_id = passages.question_id
            and answers.method = passages.retriever
            and answers.passage_id = passages.passage_id

)

select * from final
