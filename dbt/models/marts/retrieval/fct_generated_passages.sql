with generated_passages as (

    {{ with_share_of_work(ref('int_generated_passages'), 'generated_passages') }}

),

questions as (select * from {{ ref('int_questions') }}),

final as (

    select
        generated_passages.dataset,
        generated_passages.question_id,
        questions.relation,
        generated_passages.model,
        generated_passages.passage_id,
        generated_passages.text,
        generated_passages.has_answer,
        generated_passages.has_answer_popqa,
        generated_passages.raw_text,
        {{ account_columns() }}
    from generated_passages
    left join questions using (dataset, question_id)

)

select * from final
