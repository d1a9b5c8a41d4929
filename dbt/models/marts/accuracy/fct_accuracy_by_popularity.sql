with answers as (

    select * from {{ ref('int_answers_by_relation') }}

),

question_bins as (

    select * from {{ ref('int_question_bins') }}

),

counted as (

    select
        answers.dataset,
        answers.prompt,
        answers.model,
        answers.method,
        answers.relation,
        question_bins.bin,
        question_bins.bin_low,
        question_bins.bin_high,
        question_bins.bin_center_log10,
        count(*) as n,
        count(*) filter (where answers.is_correct) as n_correct
    from answers
    inner join question_bins
        on
            answers.dataset = question_bins.dataset
            and answers.question_id = question_bins.question_id
            and answers.relation = question_bins.relation
    group by all

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
