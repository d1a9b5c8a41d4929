{%- set key = 'dataset, prompt, model, method' -%}
with answers as (select * from {{ ref('int_answers') }}),
positions as (select * from {{ ref('int_question_positions') }}),
levels as (select * from {{ ref('int_popularity_levels') }}),
models as (select * from {{ ref('stg_study__models') }}),

subjects as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.method,
        positions.level,
        answers.cluster_id,
        count(*) as n,
        count(*) filter (where answers.is_declined) as n_declined,
        count(*) filter (where answers.is_correct) as n_correct,
        count(*) filter (where positions.subject_popularity = 0) as n_zero_popularity
    from answers
    left join positions using (dataset, question_id)
    group by answers.dataset, answers.prompt, answers.model, answers.method, positions.level, answers.cluster_id

),

counted as (

    select
        {{ key }},
        level,
        {{ sums(['n', 'n_declined', 'n_correct', 'n_zero_popularity']) }},
        {{ subject_sums('n_correct') }} as correct,
        {{ subject_sums('n_declined') }} as declined,
        {{ subject_sums('n_correct', 'n - n_declined') }} as attempted
    from subjects
    group by {{ key }}, level

),

groups as (

    select
        {{ key }},
        sum(n_zero_popularity)::bigint as n_zero_popularity,
        coalesce(sum(n) filter (where level is null), 0)::bigint as n_missing_popularity
    from counted
    group by {{ key }}

),

-- All levels, including those without an answer.
final as (

    select
        groups.*,
        levels.level,
        levels.level_low_log10,
        levels.level_high_log10,
        models.family,
        models.n_parameters,
        coalesce(counted.n, 0) as n,
        coalesce(counted.n_declined, 0) as n_declined,
        coalesce(counted.n_correct, 0) as n_correct,
        {{ subjects_and_deff('counted.correct') }},
        {{ rate('counted.correct', 'accuracy', 'ci') }},
        {{ rate('counted.declined', 'share_declined') }},
        {{ rate('counted.attempted', 'accuracy_attempted') }}
    from groups
    cross join levels
    left join models using (model)
    left join counted using ({{ key }}, level)

)

select * from final
