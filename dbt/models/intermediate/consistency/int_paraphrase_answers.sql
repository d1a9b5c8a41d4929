with answers as (

    {{ without_doubles(
        ref('stg_generation__paraphrase_answers'), 'dataset, question_id, paraphrase_id, model, prompt'
    ) }}

),

paraphrases as (select * from {{ ref('stg_questions__paraphrases') }}),
questions as (select * from {{ ref('int_questions') }}),

latencies as (

    select * from {{ ref('int_latencies') }}
    where method = {{ method_of('memory') }}

),

final as (

    select
        answers.*,
        paraphrases.paraphrase,
        questions.relation,
        questions.subject_popularity,
        latencies.median_ms as single_latency_ms
    from answers
    left join paraphrases using (dataset, question_id, paraphrase_id)
    left join questions using (dataset, question_id)
    left join latencies using (model, prompt)

)

select * from final
