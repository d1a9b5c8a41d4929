{%- set key = 'dataset, prompt, model, method' -%}
with answers as (

    select
        {{ key }},
        answers.relation,
        paraphrase_id,
        answers.is_correct,
        questions.cluster_id,
        agreements.n_pairs,
        agreements.n_equal,
        sum(agreements.n_equal) over of_pattern / nullif(sum(agreements.n_pairs) over of_pattern, 0) as agreement
    from {{ ref('int_candidate_answers') }} as answers
    left join {{ ref('int_questions') }} as questions using (dataset, question_id)
    left join {{ ref('int_pattern_agreement') }} as agreements using ({{ key }}, question_id, paraphrase_id)
    window of_pattern as (partition by {{ key }}, answers.relation, paraphrase_id)

),

subjects as (

    select
        {{ key }},
        relation,
        paraphrase_id,
        cluster_id,
        count(*) as n,
        count(*) filter (where is_correct) as n_correct,
        count(n_pairs) as n_fitting,
        coalesce(sum(n_pairs), 0)::bigint as n_pairs,
        any_value(agreement) as agreement,
        sum(n_equal - agreement * n_pairs) filter (where n_pairs > 0) as error
    from answers
    group by {{ key }}, relation, paraphrase_id, cluster_id

),

answered as (

    select
        {{ key }},
        relation,
        paraphrase_id,
        {{ sums(['n', 'n_correct', 'n_fitting', 'n_pairs']) }},
        {{ subject_sums('n_correct') }} as correct,
        any_value(agreement) as agreement,
        {{ clustered_interval('any_value(agreement)', 'error', 'sum(n_pairs)', 0, 'agreement') }}
    from subjects
    group by {{ key }}, relation, paraphrase_id

),
asked as (select distinct {{ key }}, relation from answered),

final as (

    select
        dataset,
        asked.prompt,
        asked.model,
        asked.method,
        relation,
        paraphrase_id,
        patterns.* exclude (dataset, relation, paraphrase_id, changes, ends_in_object),  -- noqa: RF02
        answered.n is not null as is_asked,
        coalesce(answered.n, 0) as n,
        coalesce(answered.n_correct, 0) as n_correct,
        {{ subjects_and_deff('answered.correct') }},
        {{ rate('answered.correct', 'accuracy', 'ci') }},
        coalesce(answered.n_fitting, 0) as n_fitting,
        coalesce(answered.n_pairs, 0) as n_pairs,
        answered.agreement,
        answered.agreement_low,
        answered.agreement_high
    from {{ ref('stg_questions__patterns') }} as patterns
    inner join asked using (dataset, relation)
    left join answered using ({{ key }}, relation, paraphrase_id)

)

select * from final
