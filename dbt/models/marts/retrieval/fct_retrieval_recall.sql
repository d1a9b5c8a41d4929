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
        min(rank) filter (where has_answer) as first_rank,
        min(rank) filter (where has_answer_popqa) as first_rank_popqa
    from retrieved_passages
    group by dataset, question_id, retriever

),

-- A question without a passage counts as a miss.
counted as (

    select
        questions.dataset,
        retrievers.retriever,
        questions.relation,
        count(*) as n,
        count(*) filter (where first_hits.first_rank <= 1) as n_at_1,
        count(*) filter (where first_hits.first_rank_popqa <= 1) as n_at_1_popqa,
        case when max(retrievers.n_ranks) >= 5 then count(*) filter (where first_hits.first_rank <= 5) end as n_at_5,
        case when max(retrievers.n_ranks) >= 5 then count(*) filter (where first_hits.first_rank_popqa <= 5) end
            as n_at_5_popqa
    from questions
    inner join retrievers on questions.dataset = retrievers.dataset
    left join first_hits
        on
            questions.dataset = first_hits.dataset
            and questions.question_id = first_hits.question_id
            and retrievers.retriever = first_hits.retriever
    group by questions.dataset, retrievers.retriever, questions.relation

),

final as (

    select
        dataset,
        retriever,
        relation,
        n,
        {{ rate('n_at_1', 'n', 'recall_at_1') }},
        {{ rate('n_at_5', 'n', 'recall_at_5') }},
        {{ rate('n_at_1_popqa', 'n', 'recall_at_1_popqa') }},
        {{ rate('n_at_5_popqa', 'n', 'recall_at_5_popqa') }}
    from counted

)

select * from final
