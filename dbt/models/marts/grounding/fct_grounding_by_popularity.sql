{%- set key = 'dataset, prompt, grounding_prompt, model, method, text_from, measure, bin' -%}
with scores as (select * from {{ ref('int_all_quips') }}),
bins as (select * from {{ ref('int_grounding_bins') }}),

binned as (

    select
        scores.*,
        bins.* exclude (dataset, question_id)  -- noqa: RF02
    from scores
    inner join bins using (dataset, question_id)

),

subjects as (

    select
        {{ key }},
        cluster_id,
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        any_value(bin_center_log10) as bin_center_log10,
        count(*) as n,
        {{ subject_values('quip') }}
    from binned
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        any_value(bin_center_log10) as bin_center_log10,
        sum(n)::bigint as n,
        count(*) as n_subjects,
        {{ value_sums('quip') }}
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        bin_low,
        bin_high,
        bin_center_log10,
        n,
        n_subjects,
        quip_sums['m']::bigint as n_quip,
        n - n_quip as n_undefined,
        {{ mean_of('quip', 'mean_quip', 0, 1) }}
    from summed

)

select * from final
