{{ config(materialized='view') }}

with final as (
    {% for table_name, (model, prompt, method, number) in {
        'answers': ['int_answers', 'prompt', 'method', '0'],
        'paraphrase_answers': ['int_paraphrase_answers', 'prompt', method_of('memory'), 'paraphrase_id'],
        'sampled_answers': ['int_sampled_answers', 'prompt', method_of('memory'), 'sample'],
        'candidate_answers': ['int_candidate_answers', 'prompt', 'method', 'paraphrase_id'],
        'generated_passages': ['int_generated_passages', 'null', method_of('background'), '0'],
        'grounded_generations': ['int_grounded_generations', 'grounding_prompt', 'method', '0'],
    }.items() %}
    select
        '{{ table_name }}' as table_name,
        dataset,
        question_id,
        {{ prompt }} as prompt,
        model,
        {{ method }} as method,
        {{ number }} as number
    from {{ ref(model) }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}

)

select * from final
