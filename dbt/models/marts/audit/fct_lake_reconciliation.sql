{%- set tables = {
    'answers': ['stg_generation__answers', 'fct_answers'],
    'paraphrase_answers': ['stg_generation__paraphrase_answers', 'fct_paraphrase_answers'],
    'sampled_answers': ['stg_generation__sampled_answers', 'fct_sampled_answers'],
    'generated_passages': ['stg_generation__generated_passages', 'fct_generated_passages'],
    'questions': ['stg_questions__questions', 'dim_questions'],
    'entities': ['stg_wikimedia__entities', 'dim_entities'],
} -%}
with lake_rows as (

    select * from {{ ref('stg_study__lake_rows') }}

),

quarantine as (

    select
        table_name,
        sum(n)::bigint as n
    from {{ ref('fct_quarantine') }}
    group by table_name

),

counted as (
    {% for table_name, (staging, mart) in tables.items() %}
    select
        '{{ table_name }}' as table_name,
        '{{ mart }}' as mart,
        (select count(*) from {{ ref(staging) }}) as n_study,
        (select count(*) from {{ ref(mart) }}) as n_mart
    {{ 'union all' if not loop.last }}
    {%- endfor %}

),

final as (

    select
        counted.table_name,
        counted.mart,
        lake_rows.n_rows as n_lake,
        lake_rows.n_rows - counted.n_study as n_outside_study,
        counted.n_mart,
        coalesce(quarantine.n, 0) as n_quarantined
    from counted
    inner join lake_rows on counted.table_name = lake_rows.table_name
    left join quarantine on counted.table_name = quarantine.table_name

)

select * from final
