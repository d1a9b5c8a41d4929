-- A question with a background text costs its answer and that text, whichever prompt the text was first written for. If
-- the text was left out (the lake has several with one key), the cost of the text is unknown, and so is that of the
-- question. Time and cost appear twice here: for the method alone, and as this row's part of what was really spent.
with answers as (

    {{ with_share_of_work(ref('int_answers'), 'answers') }}

),

generated_passages as (

    {{ with_share_of_work(ref('int_generated_passages'), 'generated_passages') }}

),

methods as (select * from {{ ref('stg_study__methods') }}),

joined as (

    select
        answers.*,
        generated_passages.passage_id is not null as has_background,
        if(methods.kind = 'background', generated_passages.prompt_tokens, 0) as more_prompt_tokens,
        if(methods.kind = 'background', generated_passages.shared_tokens, 0) as more_shared_tokens,
        if(methods.kind = 'background', generated_passages.new_tokens, 0) as more_new_tokens,
        if(methods.kind = 'background', generated_passages.latency_ms, 0) as more_latency_ms,
        if(methods.kind = 'background', generated_passages.device_seconds, 0) as more_device_seconds,
        if(methods.kind = 'background', generated_passages.cost_usd, 0) as more_cost_usd,
        -- a text is written once per question and used with each prompt
        coalesce(generated_passages.share_of_work, 1)
        / count(*) over (
            partition by answers.dataset, answers.question_id, answers.model, answers.passage_id
        ) as share_of_background
    from answers
    left join methods on answers.method = methods.method
    left join generated_passages
        on
            answers.dataset = generated_passages.dataset
            and answers.question_id = generated_passages.question_id
            and answers.model = generated_passages.model
            and answers.passage_id = generated_passages.passage_id

),

final as (

    select
        dataset,
        question_id,
        model,
        method,
        prompt,
        is_reused,
        single_latency_ms,
        has_background,
        prompt_tokens + more_prompt_tokens as prompt_tokens,
        shared_tokens + more_shared_tokens as shared_tokens,
        new_tokens + more_new_tokens as new_tokens,
        latency_ms + more_latency_ms as latency_ms,
        device_seconds + more_device_seconds as device_seconds,
        cost_usd + more_cost_usd as cost_usd,
        device_seconds * share_of_work + more_device_seconds * share_of_background as attributed_device_seconds,
        cost_usd * share_of_work + more_cost_usd * share_of_background as attributed_cost_usd
    from joined

)

select * from final
