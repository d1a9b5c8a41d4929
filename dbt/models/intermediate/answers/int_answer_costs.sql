{%- set accounts = ['prompt_tokens', 'shared_tokens', 'new_tokens', 'latency_ms', 'device_seconds', 'cost_usd'] -%}
{%- set parts = 'answers.share_of_work', 'share_of_background' -%}
-- Time and cost appear twice here: for the method alone, and as this row's part of what was really spent.
with answers as (

    {{ with_share_of_work(ref('int_answers'), 'answers') }}

),

generated_passages as (

    {{ with_share_of_work(ref('int_generated_passages'), 'generated_passages') }}

),

methods as (select * from {{ ref('stg_study__methods') }}),

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
        {{ with_background(account) }} as {{ account }},
        {%- endfor %}
        -- a text is written once per question and used with each prompt
        coalesce(generated_passages.share_of_work, 1)
        / count(*) over (
            partition by answers.dataset, answers.question_id, answers.model, answers.passage_id
        ) as share_of_background,
        {{ with_background('device_seconds', *parts) }} as attributed_device_seconds,
        {{ with_background('cost_usd', *parts) }} as attributed_cost_usd
    from answers
    left join methods using (method)
    left join generated_passages using (dataset, question_id, model, passage_id)

)

select * exclude (share_of_background) from final
