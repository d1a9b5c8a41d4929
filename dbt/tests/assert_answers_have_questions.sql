{{ config(meta={'dagster': {'ref': {'name': 'fct_answers'}}}) }}

-- Answers to questions that are no longer in the lake are stale. Materialise their partition again.
with answers as (
    {% for name in ['answers', 'paraphrase_answers', 'sampled_answers', 'candidate_answers', 'generated_passages'] %}
    select distinct
        '{{ name }}' as table_name,
        dataset,
        question_id,
        model
    from {{ ref('stg_generation__' ~ name) }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}

)

select
    answers.table_name,
    answers.dataset,
    answers.question_id,
    answers.model
from answers
left join {{ ref('stg_questions__questions') }} as questions using (dataset, question_id)
where questions.question_id is null
