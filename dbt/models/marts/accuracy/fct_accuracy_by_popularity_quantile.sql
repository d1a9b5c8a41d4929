{%- set key = 'dataset, prompt, model, method, binning, bin' -%}
with answers as (select * from {{ ref('int_answers') }}),

bins as (

    select * from {{ ref('int_question_binnings') }}
    where relation = 'all' and binning <> 'equal_width'

),

subjects as (

    select
        dataset,
        answers.prompt,
        answers.model,
        answers.method,
        bins.binning,
        bins.bin,
        answers.cluster_id,
        any_value(bins.bin_low) as bin_low,
        any_value(bins.bin_high) as bin_high,
        count(*) as n,
        count(*) filter (where answers.is_declined) as n_declined,
        count(*) filter (where answers.is_correct) as n_correct
    from answers
    inner join bins using (dataset, question_id)
    group by dataset, answers.prompt, answers.model, answers.method, bins.binning, bins.bin, answers.cluster_id

),

summed as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        {{ sums(['n', 'n_declined', 'n_correct']) }},
        {{ subject_sums('n_correct') }} as correct,
        {{ subject_sums('n_declined') }} as declined
    from subjects
    group by {{ key }}

),

final as (

    select
        * exclude (correct, declined),
        {{ subjects_and_deff('correct') }},
        {{ rate('correct', 'accuracy', 'ci') }},
        {{ rate('declined', 'share_declined') }}
    from summed

)

select * from final
