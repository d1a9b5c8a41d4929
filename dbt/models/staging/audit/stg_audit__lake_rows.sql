{%- set tables = [
    'answers', 'paraphrase_answers', 'sampled_answers', 'candidate_answers', 'generated_passages',
    'grounded_generations', 'questions', 'entities'
] -%}
with final as (
    {% for table_name in tables %}
    select
        '{{ table_name }}' as table_name,
        count(*) as n_rows
    from {{ source('lake', table_name) }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}

)

select * from final
