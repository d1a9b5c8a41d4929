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
        {{ average_rank('probability', key ~ ', fold') }} as probability_rank
    from predictions
    where probability is not null

),

folds as (

    select
        {{ key }},
        sum(probability_rank) filter (where is_correct)
        - count_if(is_correct) * (count_if(is_correct) + 1) / 2 as n_in_order,
        count_if(is_correct) * count_if(not is_correct) as n_pairs  -- each fold has a fit of its own
    from ranked
    group by {{ key }}, fold

),

aurocs as (select {{ key }}, sum(n_in_order) / nullif(sum(n_pairs), 0) as auroc from folds group by {{ key }}),

scored as (

    select
        {{ key }},
        count(*) as n,
        count(*) filter (where is_correct) as n_correct,
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
        aurocs.auroc,
        scored.brier,
        scored.brier_of_mean,
        calibration.expected_calibration_error,
        if(scored.n is null, counted.undefined, null) as undefined
    from counted
    left join scored using ({{ key }})
    left join aurocs using ({{ key }})
    left join calibration using ({{ key }})

)

select * from final
