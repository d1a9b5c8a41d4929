-- A question without a passage has no rank.
with questions as (select * from {{ ref('int_questions') }}),
retrieved_passages as (select * from {{ ref('stg_retrieval__retrieved_passages') }}),

retrievers as (

    select
        dataset,
        retriever,
        max(rank) as n_ranks
    from retrieved_passages
    group by dataset, retriever

),

hits as (

    select
        dataset,
        question_id,
        retriever,
        min(rank) filter (where has_answer) as first_rank,
        min(rank) filter (where has_answer_popqa) as first_rank_popqa
    from retrieved_passages
    group by dataset, question_id, retriever

),

final as (

    select
        questions.dataset,
        questions.question_id,
        questions.cluster_id,
        questions.subject_popularity,
        retrievers.retriever,
        retrievers.n_ranks,
        hits.first_rank,
        hits.first_rank_popqa
    from questions
    inner join retrievers using (dataset)
    left join hits
        on
            questions.dataset = hits.dataset
            and questions.question_id = hits.question_id
            and retrievers.retriever = hits.retriever

)

select * from final
