with answers as (

    {{ without_doubles(ref('stg_generation__sampled_answers'), 'dataset, question_id, sample, model, prompt') }}

),

questions as (select * from {{ ref('int_questions') }}),

latencies as (

    select * from {{ ref('int_latencies') }}
    where method = {{ method_of('memory') }}

),

final as (

    select
        answers.*,
        questions.relation,
        questions.question,
        questions.subject_popularity,
        latencies.median_ms as single_latency_ms
    from answers
    left join questions using (dataset, question_id)
    left join latencies using (model, prompt)

)

select * from final
