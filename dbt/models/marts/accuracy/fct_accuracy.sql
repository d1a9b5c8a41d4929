{%- set key = 'dataset, prompt, model, method, relation' -%}
{%- set rules = {
    'correct': 'is_correct',
    'case_sensitive': 'is_correct_case_sensitive',
    'normalized': 'is_correct_normalized',
    'exact_match': 'is_exact_match',
} -%}
with answers as (select * from {{ ref('int_answers') }}),
guessing_baselines as (select * from {{ ref('fct_guessing_baselines') }}),

-- First by relation: a subject's row for all relations is then the sum of a few rows.
by_relation as (

    select
        {{ key }},
        cluster_id,
        count(*) as n,
        count(*) filter (where is_declined) as n_declined,
        {%- for rule, is_right in rules.items() %}
        count(*) filter (where {{ is_right }}) as n_{{ rule }},
        {%- endfor %}
        sum(token_f1) as sum_token_f1,
        sum(rouge_l) as sum_rouge_l
    from answers
    group by {{ key }}, cluster_id

),

grouped as (

    select * replace ({{ relation_groups() }} as relation) from by_relation

),

subjects as (

    select
        {{ key }},
        cluster_id,
        sum(n)::bigint as n,
        sum(n_declined)::bigint as n_declined,
        {%- for rule in rules %}
        sum(n_{{ rule }})::bigint as n_{{ rule }},
        {%- endfor %}
        sum(sum_token_f1) as sum_token_f1,
        sum(sum_rouge_l) as sum_rouge_l
    from grouped
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        sum(n)::bigint as n,
        sum(n_declined)::bigint as n_declined,
        sum(n_correct)::bigint as n_correct,
        {%- for rule in rules %}
        {{ subject_sums('n_' ~ rule) }} as {{ rule }},
        {%- endfor %}
        {{ subject_sums('n_declined') }} as declined,
        {{ subject_sums('n_correct', '(n - n_declined)') }} as attempted,
        sum(sum_token_f1) as sum_token_f1,
        sum(sum_rouge_l) as sum_rouge_l
    from subjects
    group by {{ key }}

),

final as (

    select
        dataset,
        summed.prompt,
        summed.model,
        summed.method,
        relation,
        summed.n,
        summed.n_declined,
        summed.n_correct,
        guessing_baselines.n as n_questions,
        {{ subjects_and_deff('summed.correct') }},
        {{ rate('summed.correct', 'accuracy', 'ci') }},
        {{ rate('summed.declined', 'share_declined') }},
        {{ rate('summed.attempted', 'accuracy_attempted') }},
        {{ rate('summed.case_sensitive', 'accuracy_case_sensitive') }},
        {{ rate('summed.normalized', 'accuracy_normalized') }},
        {{ rate('summed.exact_match', 'accuracy_exact_match') }},
        summed.sum_token_f1 / summed.n as mean_token_f1,
        summed.sum_rouge_l / summed.n as mean_rouge_l,
        guessing_baselines.share_answer_in_subject,
        guessing_baselines.accuracy_majority
    from summed
    left join guessing_baselines using (dataset, relation)

)

select * from final
