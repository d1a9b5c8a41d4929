{%- set key = 'dataset, retriever, third' -%}
{%- set rules = [''] -%}
-- Questions of equal popularity at an edge are in the order of their ids.
with first_hits as (

    select * from {{ ref('int_first_hits') }}
    where subject_popularity is not null

),

thirds as (

    select
        *,
        ntile(3) over (partition by dataset, retriever order by subject_popularity, question_id) as third
    from first_hits

),

subjects as (

    select
        {{ key }},
        cluster_id,
        min(subject_popularity) as popularity_low,
        max(subject_popularity) as popularity_high,
        {{ recall_counts(rules) }}
    from thirds
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        min(popularity_low) as popularity_low,
        max(popularity_high) as popularity_high,
        {{ recall_sums(rules) }}
    from subjects
    group by {{ key }}

),

final as (

    select
        dataset,
        retriever,
        third::integer as third,
        popularity_low,
        popularity_high,
        {{ recall_rates(rules) }}
    from summed

)

select * from final
