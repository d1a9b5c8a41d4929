{%- set predictors = {'log_popularity': 'ln(subject_popularity)', 'scons': 'scons', 'cert': 'cert'} -%}
{%- set key = 'dataset, prompt, model, predictor' -%}
with questions as (select * from {{ ref('int_prediction_rows') }} where undefined is null),

predictor_values as (
    {% for predictor, expression in predictors.items() %}
    select *, '{{ predictor }}' as predictor, {{ expression }} as predictor_value from questions
    {{ 'union all' if not loop.last }}
    {%- endfor %}

),

placed as (

    select
        *,
        min(predictor_value) over (partition by {{ key }}) as lowest,
        (max(predictor_value) over (partition by {{ key }}) - lowest) / 15 as width,
        if(width > 0, least(floor((predictor_value - lowest) / width), 14), 0)::integer as bin
    from predictor_values

),

central as (

    select
        {{ key }},
        relation,
        quantile_cont(predictor_value, [0.025, 0.975]) as ends
    from predictor_values
    group by {{ key }}, relation

),

subjects as (

    select
        {{ key }},
        relation,
        bin,
        subject,
        any_value(lowest) as lowest,
        any_value(width) as width,
        count(*) as n,
        count(*) filter (where is_correct) as n_correct
    from placed
    group by {{ key }}, relation, bin, subject

),

counted as (

    select
        {{ key }},
        relation,
        bin,
        any_value(lowest + bin * width) as bin_low,
        any_value(lowest + (bin + 1) * width) as bin_high,
        any_value(lowest + (bin + 0.5) * width) as bin_center,
        {{ sums(['n', 'n_correct']) }},
        {{ subject_sums('n_correct') }} as correct
    from subjects
    group by {{ key }}, relation, bin

),

final as (

    select
        counted.* exclude (correct),  -- noqa: RF02
        {{ subjects_and_deff('counted.correct') }},
        {{ rate('counted.correct', 'accuracy', 'ci') }},
        counted.bin_center between central.ends[1] and central.ends[2] as is_central
    from counted
    inner join central using ({{ key }}, relation)

)

select * from final
