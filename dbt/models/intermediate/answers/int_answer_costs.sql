-- A question of genread costs its answer and the background text before it, whichever prompt it was first written for.
-- Where that text was left out (the lake holds several of one key), what it took is not known, nor what the question
-- did. Time and cost stand here twice: what the method takes by itself, and the row's part of what was spent once.
{%- set accounts = ['prompt_tokens', 'shared_tokens', 'new_tokens', 'latency_ms', 'device_seconds', 'cost_usd'] %}
with answers as (

    {{ with_share_of_work(ref('int_answers'), 'answers') }}

),

generated_passages as (

    {{ with_share_of_work(ref('int_generated_passages'), 'generated_passages') }}

),

-- A text is written once a question, and read under each prompt.
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
        {%- for account in accounts %}
        answers.{{ account }} + if(answers.method = 'genread', generated_passages.{{ account }}, 0) as {{ account }},
        {%- endfor %}
        {%- for account in ['device_seconds', 'cost_usd'] %}
        answers.{{ account }} * answers.share_of_work + if(
            answers.method = 'genread',
            generated_passages.{{ account }} * generated_passages.share_of_work
            / count(*) over (partition by answers.dataset, answers.question_id, answers.model, answers.passage_id),
            0
        ) as attributed_{{ account }}{{ ',' if not loop.last }}
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
