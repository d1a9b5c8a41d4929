-- A question of genread costs its answer and the background text before it, whichever prompt it was first written for.
-- Where that text was left out (the lake holds several of one key), what it took is not known, nor what the question
-- did.
with answers as (

    select * from {{ ref('int_answers') }}

),

generated_passages as (

    select * from {{ ref('int_generated_passages') }}

),

final as (

    select
        answers.dataset,
        answers.question_id,
        answers.model,
        answers.method,
        answers.prompt,
        answers.is_reused,
        answers.single_latency_ms,
        generated_passages.passage_id is not null as has_background,
        answers.prompt_tokens + if(answers.method = 'genread', generated_passages.prompt_tokens, 0) as prompt_tokens,
        answers.shared_tokens + if(answers.method = 'genread', generated_passages.shared_tokens, 0) as shared_tokens,
        answers.new_tokens + if(answers.method = 'genread', generated_passages.new_tokens, 0) as new_tokens,
        answers.latency_ms + if(answers.method = 'genread', generated_passages.latency_ms, 0) as latency_ms,
        answers.device_seconds + if(answers.method = 'genread', generated_passages.device_seconds, 0) as device_seconds,
        answers.cost_usd + if(answers.method = 'genread', generated_passages.cost_usd, 0) as cost_usd
    from answers
    left join generated_passages
        on
            answers.dataset = generated_passages.dataset
            and answers.question_id = generated_passages.question_id
            and answers.model = generated_passages.model
            and answers.passage_id = generated_passages.passage_id

)

select * from final
