{%- set key = 'dataset, prompt, model, method, relation, bin' -%}
with answers as (select * from {{ ref('int_answers') }}),
question_bins as (select * from {{ ref('int_question_bins') }}),

-- A question has two bins: one in its relation and one in all.
subjects as (

    select
        dataset,
        answers.prompt,
        answers.model,
        answers.method,
        question_bins.relation,
        question_bins.bin,
        answers.cluster_id,
        any_value(question_bins.bin_low) as bin_low,
        any_value(question_bins.bin_high) as bin_high,
        any_value(question_bins.bin_center_log10) as bin_center_log10,
        count(*) as n,
        count(*) filter (where answers.is_declined) as n_declined,
        count(*) filter (where answers.is_correct) as n_correct
    from answers
    inner join question_bins using (dataset, question_id)
    group by
        dataset, answers.prompt, answers.model, answers.method, question_bins.relation, question_bins.bin,
        answers.cluster_id

),

summed as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        any_value(bin_center_log10) as bin_center_log10,
        {{ sums(['n', 'n_declined', 'n_correct']) }},
        {{ subject_sums('n_correct') }} as correct,
        {{ subject_sums('n_declined') }} as declined,
        {{ subject_sums('n_correct', 'n - n_declined') }} as attempted
    from subjects
    group by {{ key }}

),

final as (

    select
        * exclude (correct, declined, attempted),
        {{ subjects_and_deff('correct') }},
        {{ rate('correct', 'accuracy', 'ci') }},
        {{ rate('declined', 'share_declined') }},
        {{ rate('attempted', 'accuracy_attempted') }}
    from summed

)

select * from final
