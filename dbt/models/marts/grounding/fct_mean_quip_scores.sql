{%- set key = 'dataset, prompt, grounding_prompt, model, method, text_from' -%}
with scores as (select * from {{ ref('int_all_quips') }}),

subjects as (

    select
        {{ key }},
        cluster_id,
        count(*) as n,
        coalesce(sum(n_grams), 0)::bigint as total_grams,
        {{ subject_values('quip') }},
        {{ subject_values('quip_reference') }}
    from scores
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        sum(n)::bigint as n,
        count(*) as n_subjects,
        sum(total_grams)::bigint as total_grams,
        {{ value_sums('quip') }},
        {{ value_sums('quip_reference') }}
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        n,
        n_subjects,
        quip_sums['m']::bigint as n_quip,
        n - n_quip as n_undefined,
        total_grams,
        {{ mean_of('quip', 'mean_quip', 0, 1) }},
        {{ mean_of('quip_reference', 'mean_quip_reference', 0, 1) }}
    from summed

)

select * from final
