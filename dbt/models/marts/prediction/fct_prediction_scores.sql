{%- set key = 'dataset, prompt, model, estimator, signal' -%}
with predictions as (select * from {{ ref('fct_question_predictions') }}),

calibration as (

    select
        {{ key }},
        sum(n * abs(mean_probability - accuracy) order by bin) / sum(n) as expected_calibration_error
    from {{ ref('fct_prediction_calibration') }}
    group by {{ key }}

),

ranked as (

    select
        *,
        {{ average_rank('probability', key) }} as probability_rank
    from predictions
    where probability is not null

),

scored as (

    select
        {{ key }},
        count(*) as n,
        count(*) filter (where is_correct) as n_correct,
        -- The share of pairs of a right and a wrong answer in which the right one has the higher probability.
        (sum(probability_rank) filter (where is_correct) - n_correct * (n_correct + 1) / 2)
        / nullif(n_correct * (n - n_correct), 0) as auroc,
        avg((probability - is_correct::integer) ** 2 order by probability, is_correct) as brier,
        n_correct / n * (1 - n_correct / n) as brier_of_mean
    from ranked
    group by {{ key }}

),

counted as (

    select
        {{ key }},
        count(*) as n_questions,
        mode(undefined) as undefined
    from predictions
    group by {{ key }}

),

final as (

    select
        counted.* exclude (undefined),
        coalesce(scored.n, 0) as n,
        coalesce(scored.n_correct, 0) as n_correct,
        scored.auroc,
        scored.brier,
        scored.brier_of_mean,
        calibration.expected_calibration_error,
        if(scored.n is null, counted.undefined, null) as undefined
    from counted
    left join scored using ({{ key }})
    left join calibration using ({{ key }})

)

select * from final
