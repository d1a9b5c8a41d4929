{%- set key = 'dataset, question_id, model' -%}
{%- set tables = {
    'answers': ['fct_answers', key ~ ', method, prompt', 'prediction'],
    'paraphrase_answers': ['fct_paraphrase_answers', key ~ ', paraphrase_id, prompt', 'prediction'],
    'sampled_answers': ['fct_sampled_answers', key ~ ', sample, prompt', 'prediction'],
    'candidate_answers': ['fct_candidate_answers', key ~ ', paraphrase_id, method, prompt', 'prediction'],
    'generated_passages': ['fct_generated_passages', key, 'text'],
    'grounded_generations': ['fct_grounded_generations', key ~ ', method, grounding_prompt', 'generation'],
} -%}
with lake_rows as (select * from {{ ref('stg_audit__lake_rows') }}),

quarantine as (

    select
        table_name,
        sum(n)::bigint as n
    from {{ ref('fct_quarantine') }}
    group by table_name

),

missing as (

    select
        table_name,
        sum(n_expected)::bigint as n_expected,
        sum(n_missing)::bigint as n_missing
    from {{ ref('fct_answer_coverage') }}
    group by table_name

),

counted as (
    {% for table_name, (mart, own_key, text) in tables.items() %}
    select
        '{{ table_name }}' as table_name,
        '{{ mart }}' as mart,
        (select count(*) from {{ ref('stg_generation__' ~ table_name) }}) as n_study,
        coalesce(sum(n - 1) filter (where is_copied), 0)::bigint as n_copies,
        coalesce(sum(n) filter (where not is_copied), 0)::bigint as n_contradictory,
        (select count(*) from {{ ref(mart) }}) as n_mart
    from ({{ doubled_keys(ref('stg_generation__' ~ table_name), own_key, text) }})
    union all
    {%- endfor %}{% for table_name, source in [('questions', 'questions'), ('entities', 'wikimedia')] %}
    select
        '{{ table_name }}' as table_name,
        'dim_{{ table_name }}' as mart,
        (select count(*) from {{ ref('stg_' ~ source ~ '__' ~ table_name) }}) as n_study,
        0 as n_copies,
        0 as n_contradictory,
        (select count(*) from {{ ref('dim_' ~ table_name) }}) as n_mart
    {{ 'union all' if not loop.last }}{% endfor %}

),

final as (

    select
        counted.table_name,
        counted.mart,
        lake_rows.n_rows as n_lake,
        lake_rows.n_rows - counted.n_study as n_outside_study,
        counted.n_copies,
        counted.n_contradictory,
        counted.n_mart,
        coalesce(quarantine.n, 0) as n_quarantined,
        missing.n_expected,
        missing.n_missing
    from counted
    inner join lake_rows using (table_name)
    left join quarantine using (table_name)
    left join missing using (table_name)

)

select * from final
