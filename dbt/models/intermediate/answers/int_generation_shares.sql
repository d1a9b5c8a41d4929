-- The row cache serves all partitions. Methods that show the same passage have one generation in common. A partition of
-- grounded generations holds all methods (here: null).
with partitions as (
    {% for table_name, (model, method) in {
        'answers': ['int_answers', 'method'],
        'paraphrase_answers': ['int_paraphrase_answers', method_of('memory')],
        'sampled_answers': ['int_sampled_answers', method_of('memory')],
        'candidate_answers': ['int_candidate_answers', 'method'],
        'generated_passages': ['int_generated_passages', method_of('background')],
        'grounded_generations': ['int_grounded_generations', 'null::varchar'],
    }.items() %}
    select
        '{{ table_name }}' as table_name,
        model,
        {{ method }} as method,
        generation_key,
        count(*) as n_rows
    from {{ ref(model) }}
    where generation_key is not null
    group by all
    {{ 'union all' if not loop.last }}
    {%- endfor %}

),

-- Rows of one partition already share the time of a generation equally: their sum is the whole time.
final as (

    select
        *,
        n_rows / sum(n_rows) over (partition by generation_key) as share_of_work
    from partitions
    qualify count(*) over (partition by generation_key) > 1

)

select * from final
