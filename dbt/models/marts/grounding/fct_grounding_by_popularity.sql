{%- set scored = 'scores.dataset, scores.prompt, scores.model, scores.method, scores.text_from' -%}
with scores as (

    select * from {{ ref('int_quip_scores') }}

),

bins as (

    select * from {{ ref('int_grounding_bins') }}

),

final as (

    select
        {{ scored }},
        bins.measure,
        bins.bin,
        any_value(bins.bin_low) as bin_low,
        any_value(bins.bin_high) as bin_high,
        any_value(bins.bin_center_log10) as bin_center_log10,
        count(*) as n,
        count(scores.quip) as n_quip,
        count(*) - count(scores.quip) as n_undefined,
        avg(scores.quip) as mean_quip,
        {{ mean_interval('quip', 0, 1) }}
    from scores
    inner join bins
        on scores.dataset = bins.dataset and scores.question_id = bins.question_id
    group by {{ scored }}, bins.measure, bins.bin

)

select * from final
