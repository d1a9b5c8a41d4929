with questions as (select * from {{ ref('int_questions_by_relation') }}),
first_hits as (select * from {{ ref('int_first_hits') }}),

final as (

    select
        questions.dataset,
        first_hits.retriever,
        questions.relation,
        count(*) as n,
        {{ recall_rates() }}
    from questions
    inner join first_hits on questions.dataset = first_hits.dataset and questions.question_id = first_hits.question_id
    group by questions.dataset, first_hits.retriever, questions.relation

)

select * from final
