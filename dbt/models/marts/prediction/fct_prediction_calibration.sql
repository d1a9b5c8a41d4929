{%- set key = 'dataset, prompt, model, estimator, signal, bin' -%}
with predictions as (

    select
        *,
        least(floor(probability * 10), 9)::integer as bin
    from {{ ref('fct_question_predictions') }}
    where probability is not null

),

questions as (select * from {{ ref('int_questions') }}),

subjects as (

    select
        {{ key }},
        questions.cluster_id,
        count(*) as n,
        count(*) filter (where predictions.is_correct) as n_correct,
        sum(predictions.probability order by predictions.probability) as total_probability
    from predictions
    left join questions using (dataset, question_id)
    group by {{ key }}, questions.cluster_id

),

summed as (

    select
        {{ key }},
        {{ sums(['n', 'n_correct']) }},
        sum(total_probability order by total_probability) / sum(n) as mean_probability,
        {{ subject_sums('n_correct') }} as correct
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        bin / 10 as bin_low,
        (bin + 1) / 10 as bin_high,
        n,
        {{ subjects_and_deff('correct') }},
        n_correct,
        mean_probability,
        {{ rate('correct', 'accuracy', 'ci') }}
    from summed

)

select * from final
