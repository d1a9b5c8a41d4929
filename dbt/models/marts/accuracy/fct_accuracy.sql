{%- set key = 'dataset, prompt, model, method, relation' -%}
{%- set rules = {
    'correct': 'is_correct',
    'case_sensitive': 'is_correct_case_sensitive',
    'normalized': 'is_correct_normalized',
    'exact_match': 'is_exact_match',
} -%}
with answers as (

    select * replace ({{ relation_groups() }} as relation) from {{ ref('int_answers') }}

),

guessing_baselines as (select * from {{ ref('fct_guessing_baselines') }}),

subjects as (

    select
        {{ key }},
        cluster_id,
        {%- for rule, is_right in rules.items() %}
        count(*) filter (where {{ is_right }}) as n_{{ rule }},
        count({{ is_right }}) as n_by_{{ rule }},
        {%- endfor %}
        sum(token_f1) as sum_token_f1,
        count(token_f1) as n_token_f1,
        sum(rouge_l) as sum_rouge_l,
        count(rouge_l) as n_rouge_l,
        count(*) filter (where is_declined) as n_declined,
        count(*) as n
    from answers
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        {{ sums(['n', 'n_declined', 'n_correct']) }},
        {%- for rule in rules %}
        {{ subject_sums('n_' ~ rule, 'n_by_' ~ rule) }} as {{ rule }},
        {%- endfor %}
        {{ subject_sums('n_declined') }} as declined,
        {{ subject_sums('n_correct', 'n - n_declined') }} as attempted,
        sum(sum_token_f1) / nullif(sum(n_token_f1), 0) as mean_token_f1,
        sum(sum_rouge_l) / nullif(sum(n_rouge_l), 0) as mean_rouge_l
    from subjects
    group by {{ key }}

),

final as (

    select
        summed.* exclude (declined, attempted, {{ rules | join(', ') }}),  -- noqa: RF02
        guessing_baselines.n as n_questions,
        {{ subjects_and_deff('summed.correct') }},
        {{ rate('summed.correct', 'accuracy', 'ci') }},
        {{ rate('summed.declined', 'share_declined') }},
        {{ rate('summed.attempted', 'accuracy_attempted') }},
        {{ rate('summed.case_sensitive', 'accuracy_case_sensitive') }},
        summed.normalized['m']::bigint as n_normalized,
        {{ rate('summed.normalized', 'accuracy_normalized') }},
        summed.exact_match['m']::bigint as n_exact_match,
        {{ rate('summed.exact_match', 'accuracy_exact_match') }},
        guessing_baselines.share_answer_in_subject,
        guessing_baselines.accuracy_majority
    from summed
    left join guessing_baselines using (dataset, relation)

)

select * from final
