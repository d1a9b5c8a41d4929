{%- set key = 'dataset, retriever, relation, bin' -%}
{%- set rules = ['', '_popqa'] -%}
with first_hits as (select * from {{ ref('int_first_hits') }}),
question_bins as (select * from {{ ref('int_question_bins') }}),

-- A question has two bins: one in its relation and one in all.
subjects as (

    select
        dataset,
        first_hits.retriever,
        question_bins.relation,
        question_bins.bin,
        first_hits.cluster_id,
        any_value(question_bins.bin_low) as bin_low,
        any_value(question_bins.bin_high) as bin_high,
        {{ recall_counts(rules) }}
    from first_hits
    inner join question_bins using (dataset, question_id)
    group by dataset, first_hits.retriever, question_bins.relation, question_bins.bin, first_hits.cluster_id

),

summed as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        {{ recall_sums(rules) }}
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        bin_low,
        bin_high,
        {{ recall_rates(rules) }}
    from summed

)

select * from final
