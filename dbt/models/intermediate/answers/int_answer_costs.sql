-- A question of genread costs its answer and the background text before it, whichever prompt it was first written for.
-- Where that text was left out (the lake holds several of one key), what it took is not known, nor what the question did.
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
        {%- for column in ['prompt_tokens', 'shared_tokens', 'new_tokens', 'latency_ms', 'device_seconds', 'cost_usd'] %}
        answers.{{ column }}
        + if(answers.method = 'genread', generated_passages.{{ column }}, 0) as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    from answers
    left join generated_passages
        on
            answers.dataset = generated_passages.dataset
            and answers.question_id = generated_passages.question_id
            and answers.model = generated_passages.model
            and answers.passage_id = generated_passages.passage_id

)

select * from final
