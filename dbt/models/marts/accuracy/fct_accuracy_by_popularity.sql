with answers as (select * from {{ ref('int_answers') }}),
question_bins as (select * from {{ ref('int_question_bins') }}),

-- A question has two bins: one in its relation and one in all.
counted as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.method,
        question_bins.relation,
        question_bins.bin,
        any_value(question_bins.bin_low) as bin_low,
        any_value(question_bins.bin_high) as bin_high,
        any_value(question_bins.bin_center_log10) as bin_center_log10,
        count(*) as n,
        count(*) filter (where answers.is_declined) as n_declined,
        count(*) filter (where answers.is_correct) as n_correct
    from answers
    inner join question_bins
        on answers.dataset = question_bins.dataset and answers.question_id = question_bins.question_id
    group by answers.dataset, answers.prompt, answers.model, answers.method, question_bins.relation, question_bins.bin

),

final as (

    select
        *,
        n_correct / n as accuracy,
        {{ wilson_low('n_correct', 'n') }} as ci_low,
        {{ wilson_high('n_correct', 'n') }} as ci_high,
        {{ rate('n_declined', 'n', 'share_declined') }},
        {{ rate('n_correct', '(n - n_declined)', 'accuracy_attempted') }}
    from counted

)

select * from final
