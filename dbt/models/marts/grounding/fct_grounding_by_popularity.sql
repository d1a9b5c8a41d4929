{%- set group = 'scores.dataset, scores.prompt, scores.model, scores.method, scores.text_from, question_bins.bin' -%}
with scores as (

    select * from {{ ref('int_quip_scores') }}

),

question_bins as (

    select * from {{ ref('int_question_bins') }}
    where relation = 'all'

),

final as (

    select
        {{ group }},
        any_value(question_bins.bin_low) as bin_low,
        any_value(question_bins.bin_high) as bin_high,
        any_value(question_bins.bin_center_log10) as bin_center_log10,
        count(*) as n,
        count(scores.quip) as n_quip,
        count(*) - count(scores.quip) as n_undefined,
        avg(scores.quip) as mean_quip,
        {{ mean_interval('quip', 0, 1) }}
    from scores
    inner join question_bins
        on scores.dataset = question_bins.dataset and scores.question_id = question_bins.question_id
    group by {{ group }}

)

select * from final
