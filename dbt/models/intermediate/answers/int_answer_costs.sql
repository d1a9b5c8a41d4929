-- A question of genread costs its answer and the background text before it, whichever prompt it was first written for.
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
        answers.prompt_tokens + coalesce(generated_passages.prompt_tokens, 0) as prompt_tokens,
        answers.shared_tokens + coalesce(generated_passages.shared_tokens, 0) as shared_tokens,
        answers.new_tokens + coalesce(generated_passages.new_tokens, 0) as new_tokens,
        answers.latency_ms + coalesce(generated_passages.latency_ms, 0) as latency_ms,
        case
            when has_background then answers.device_seconds + generated_passages.device_seconds
            else answers.device_seconds
        end as device_seconds,
        case
            when has_background then answers.cost_usd + generated_passages.cost_usd
            else answers.cost_usd
        end as cost_usd
    from answers
    left join generated_passages
        on
            answers.dataset = generated_passages.dataset
            and answers.question_id = generated_passages.question_id
            and answers.model = generated_passages.model
            and answers.passage_id = generated_passages.passage_id

)

select * from final
