{%- set costs = ['tokens', 'device_seconds', 'cost_usd', 'single_latency_ms'] -%}
{%- set keys = 'dataset, question_id, model, prompt' -%}
-- The question itself is paraphrase 0. With the prompt of the answers it is answered anyway, and costs nothing more.
with asked as (

    select
        {{ keys }},
        paraphrase_id = 0 as is_question,
        prompt_tokens + new_tokens as tokens,
        device_seconds,
        cost_usd,
        single_latency_ms
    from {{ ref('int_paraphrase_answers') }}
    union all
    select
        {{ keys }},
        false as is_question,
        prompt_tokens + new_tokens as tokens,
        device_seconds,
        cost_usd,
        single_latency_ms
    from {{ ref('int_sampled_answers') }}

),

final as (

    select
        {{ keys }},
        {%- for cost in costs %}
        {{ whole_sum(cost) }} as signal_{{ cost }},
        {%- endfor %}
        prompts.is_own_prompt
    from asked
    cross join (values (true), (false)) as prompts (is_own_prompt)
    where not (asked.is_question and prompts.is_own_prompt)
    group by {{ keys }}, prompts.is_own_prompt

)

select * from final
