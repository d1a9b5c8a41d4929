with questions as (

    select * from {{ ref('int_questions_by_relation') }}

),

retrieved_passages as (

    select * from {{ ref('stg_retrieval__retrieved_passages') }}

),

retrievers as (

    select
        dataset,
        retriever,
        max(rank) as n_ranks
    from retrieved_passages
    group by dataset, retriever

),

first_hits as (

    select
        dataset,
        question_id,
        retriever,
        min(rank) filter (where has_answer) as first_rank
    from retrieved_passages
    group by dataset, question_id, retriever

),

-- A question without a passage counts as a miss.
final as (

    select
        questions.dataset,
        retrievers.retriever,
        questions.relation,
        count(*) as n,
        avg(coalesce(first_hits.first_rank <= 1, false)::integer) as recall_at_1,
        case
            when max(retrievers.n_ranks) >= 5
                then avg(coalesce(first_hits.first_rank <= 5, false)::integer)
        end as recall_at_5
    from questions
    inner join retrievers on questions.dataset = retrievers.dataset
    left join first_hits
        on
            questions.dataset = first_hits.dataset
            and questions.question_id = first_hits.question_id
            and retrievers.retriever = first_hits.retriever
    group by questions.dataset, retrievers.retriever, questions.relation

)

select * from final
