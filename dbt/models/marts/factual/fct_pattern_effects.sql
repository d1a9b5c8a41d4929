{%- set key = 'dataset, prompt, model, method' -%}
with answers as (

    select
        {{ key }},
        answers.relation,
        paraphrase_id,
        answers.is_correct,
        agreements.n_pairs,
        agreements.n_equal,
        sum(agreements.n_equal) over of_pattern / nullif(sum(agreements.n_pairs) over of_pattern, 0) as agreement
    from {{ ref('int_candidate_answers') }} as answers
    left join {{ ref('int_pattern_agreement') }} as agreements using ({{ key }}, question_id, paraphrase_id)
    window of_pattern as (partition by {{ key }}, answers.relation, paraphrase_id)

),

answered as (

    select
        {{ key }},
        relation,
        paraphrase_id,
        count(*) as n,
        count(*) filter (where is_correct) as n_correct,
        count(n_pairs) as n_fitting,
        coalesce(sum(n_pairs), 0)::bigint as n_pairs,
        any_value(agreement) as agreement,
        {{ clustered_interval(
            'any_value(agreement)', 'if(n_pairs > 0, n_equal - agreement * n_pairs, null)', 'sum(n_pairs)', 0, 'agreement'
        ) }}
    from answers
    group by {{ key }}, relation, paraphrase_id

),

asked as (

    select distinct {{ key }}, relation
    from answered

),

final as (

    select
        dataset,
        asked.prompt,
        asked.model,
        asked.method,
        relation,
        paraphrase_id,
        patterns.pattern,
        patterns.lemma,
        patterns.extended_lemma,
        patterns.tense,
        patterns.article,
        answered.n is not null as is_asked,
        coalesce(answered.n, 0) as n,
        coalesce(answered.n_correct, 0) as n_correct,
        answered.n_correct / answered.n as accuracy,
        {{ wilson_low('answered.n_correct', 'answered.n') }} as ci_low,
        {{ wilson_high('answered.n_correct', 'answered.n') }} as ci_high,
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
