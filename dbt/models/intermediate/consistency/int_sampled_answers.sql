with answers as (

    {{ without_doubles(ref('stg_generation__sampled_answers'), 'dataset, question_id, sample, model, prompt') }}

),

questions as (

    select * from {{ ref('int_questions') }}

),

latency_calibrations as (

    select * from {{ ref('stg_generation__latency_calibrations') }}

),

final as (

    select
        answers.*,
        questions.relation,
        questions.question,
        questions.subject_popularity,
        latency_calibrations.single_latency_ms
    from answers
    left join questions
        on
            answers.dataset = questions.dataset
            and answers.question_id = questions.question_id
    left join latency_calibrations
        on
            answers.model = latency_calibrations.model
            and answers.prompt = latency_calibrations.prompt
            and latency_calibrations.method = 'closed_book'

)

select * from final
