{%- set key = 'dataset, prompt, grounding_prompt, model, method, text_from, measure, bin' -%}
with scores as (select * from {{ ref('int_all_quips') }}),
bins as (select * from {{ ref('int_grounding_bins') }}),

binned as (

    select
        scores.*,
        bins.* exclude (dataset, question_id)  -- noqa: RF02
    from scores
    inner join bins on scores.dataset = bins.dataset and scores.question_id = bins.question_id

),

final as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        any_value(bin_center_log10) as bin_center_log10,
        count(*) as n,
        count(quip) as n_quip,
        count(*) - count(quip) as n_undefined,
        avg(quip) as mean_quip,
        {{ mean_interval('quip', 0, 1) }}
    from binned
    group by {{ key }}

)

select * from final
