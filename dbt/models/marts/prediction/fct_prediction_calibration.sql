{%- set key = 'dataset, prompt, model, estimator, signal' -%}
with predictions as (

    select * from {{ ref('fct_question_predictions') }}
    where probability is not null

),

binned as (

    select
        *,
        least(floor(probability * 10), 9)::integer as bin
    from predictions

),

counted as (

    select
        {{ key }},
        bin,
        bin / 10 as bin_low,
        (bin + 1) / 10 as bin_high,
        count(*) as n,
        count(*) filter (where is_correct) as n_correct,
        avg(probability) as mean_probability
    from binned
    group by {{ key }}, bin

),

final as (

    select
        *,
        n_correct / n as accuracy,
        {{ wilson_low('n_correct', 'n') }} as ci_low,
        {{ wilson_high('n_correct', 'n') }} as ci_high
    from counted

)

select * from final
