{%- set key = 'dataset, prompt, model, method, relation' -%}
with answers as (select * from {{ ref('int_answers') }}),
guessing_baselines as (select * from {{ ref('fct_guessing_baselines') }}),

counted as (

    select
        {{ key }},
        count(*) as n,
        count(*) filter (where is_declined) as n_declined,
        count(*) filter (where is_correct) as n_correct,
        count(*) filter (where is_correct_case_sensitive) as n_case_sensitive,
        count(*) filter (where is_correct_normalized) as n_normalized,
        count(*) filter (where is_exact_match) as n_exact_match,
        sum(token_f1) as sum_token_f1,
        sum(rouge_l) as sum_rouge_l
    from answers
    group by {{ key }}

),

-- First by relation: the row for all relations is then the sum of a few rows.
by_relation as (

    select * replace ({{ relation_groups() }} as relation) from counted

),

summed as (

    select
        {{ key }},
        sum(n)::bigint as n,
        sum(n_declined)::bigint as n_declined,
        sum(n_correct)::bigint as n_correct,
        sum(n_case_sensitive)::bigint as n_case_sensitive,
        sum(n_normalized)::bigint as n_normalized,
        sum(n_exact_match)::bigint as n_exact_match,
        sum(sum_token_f1) as sum_token_f1,
        sum(sum_rouge_l) as sum_rouge_l
    from by_relation
    group by {{ key }}

),

final as (

    select
        summed.* exclude (n_case_sensitive, n_normalized, n_exact_match, sum_token_f1, sum_rouge_l),  -- noqa: RF02
        guessing_baselines.n as n_questions,
        summed.n_correct / summed.n as accuracy,
        {{ wilson_low('summed.n_correct', 'summed.n') }} as ci_low,
        {{ wilson_high('summed.n_correct', 'summed.n') }} as ci_high,
        {{ rate('summed.n_declined', 'summed.n', 'share_declined') }},
        {{ rate('summed.n_correct', '(summed.n - summed.n_declined)', 'accuracy_attempted') }},
        {{ rate('summed.n_case_sensitive', 'summed.n', 'accuracy_case_sensitive') }},
        {{ rate('summed.n_normalized', 'summed.n', 'accuracy_normalized') }},
        {{ rate('summed.n_exact_match', 'summed.n', 'accuracy_exact_match') }},
        summed.sum_token_f1 / summed.n as mean_token_f1,
        summed.sum_rouge_l / summed.n as mean_rouge_l,
        guessing_baselines.share_answer_in_subject,
        guessing_baselines.accuracy_majority
    from summed
    left join guessing_baselines using (dataset, relation)

)

select * from final
