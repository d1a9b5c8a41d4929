{%- set rules = ['is_correct', 'is_correct_case_sensitive', 'is_correct_normalized', 'is_exact_match'] -%}
{%- set counts = ['n', 'n_both', 'n_rule_only', 'n_verdict_only'] -%}
{%- set by_chance = '(accuracy_by_rule * accuracy_by_verdict + (1 - accuracy_by_rule) * (1 - accuracy_by_verdict))' -%}
{%- set key = 'dataset, prompt, model, method, rule' -%}
with answers as (select * from {{ ref('int_answers') }}),
imported_answers as (select * from {{ ref('stg_imports__answers') }}),

-- Only answers that the file itself judges can have different verdicts.
judged as (

    select
        dataset,
        answers.prompt,
        answers.model,
        answers.method,
        answers.cluster_id,
        imported_answers.is_correct as verdict,
        unnest({{ rules }}) as rule,
        unnest([
            {%- for rule in rules %}
            answers.{{ rule }}{{ ',' if not loop.last }}
            {%- endfor %}
        ]) as is_right
    from answers
    inner join imported_answers using (dataset, question_id, model, method, prompt)
    where imported_answers.is_correct is not null

),

subjects as (

    select
        {{ key }},
        cluster_id,
        count(*) as n,
        count(*) filter (where is_right and verdict) as n_both,
        count(*) filter (where is_right and not verdict) as n_rule_only,
        count(*) filter (where verdict and not is_right) as n_verdict_only
    from judged
    where is_right is not null
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        {{ sums(counts) }},
        {{ subject_sums('n - n_rule_only - n_verdict_only') }} as agreeing,
        {{ subject_sums('n_rule_only - n_verdict_only') }} as difference_sums,
        {{ subject_sums('n_both + n_rule_only') }} as right_by_rule,
        {{ subject_sums('n_both + n_verdict_only') }} as right_by_verdict
    from subjects
    group by {{ key }}

),

final as (

    select
        * exclude (n_both, agreeing, difference_sums, right_by_rule, right_by_verdict),
        {{ subjects_and_deff('agreeing') }},
        {{ rate('agreeing', 'agreement', 'ci') }},
        {{ rate('right_by_rule', 'accuracy_by_rule') }},
        {{ rate('right_by_verdict', 'accuracy_by_verdict') }},
        {{ mean_of('difference', 'difference', -1, 1) }},
        (agreement - {{ by_chance }}) / nullif(1 - {{ by_chance }}, 0) as kappa
    from summed

)

select * from final
