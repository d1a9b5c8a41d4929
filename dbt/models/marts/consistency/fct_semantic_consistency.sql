{%- set key = 'dataset, prompt, model, relation' -%}
{%- set measures = ['scons', 'cert', 'scons_entailment', 'cert_entailment', 'semantic_entropy'] -%}
with question_consistency as (select * from {{ ref('fct_question_consistency') }}),
questions as (select * from {{ ref('int_questions') }}),

by_relation as (

    select
        question_consistency.* exclude (relation),
        questions.cluster_id,
        {{ relation_groups('question_consistency.relation') }} as relation
    from question_consistency
    left join questions using (dataset, question_id)

),

subjects as (

    select
        {{ key }},
        cluster_id,
        count(*) as n,
        count(is_correct) as n_answered,
        count(*) filter (where is_correct) as n_correct,
        {%- for measure in measures %}
        {{ subject_values(measure) }},
        {%- endfor %}
        sum(identical_answers) as identical_answers,
        count(identical_answers) as n_identical_answers,
        sum(identical_samples) as identical_samples,
        count(identical_samples) as n_identical_samples
    from by_relation
    group by {{ key }}, cluster_id

),

summed as (

    select
        {{ key }},
        {{ sums(['n', 'n_answered', 'n_correct']) }},
        {{ subject_sums('n_correct', 'n_answered') }} as correct,
        {%- for measure in measures %}
        {{ value_sums(measure) }},
        {%- endfor %}
        sum(identical_answers) / nullif(sum(n_identical_answers), 0) as identical_answers,
        sum(identical_samples) / nullif(sum(n_identical_samples), 0) as identical_samples
    from subjects
    group by {{ key }}

),

final as (

    select
        {{ key }},
        n,
        scons_sums['m']::bigint as n_scons,
        cert_sums['m']::bigint as n_cert,
        scons_entailment_sums['m']::bigint as n_scons_entailment,
        cert_entailment_sums['m']::bigint as n_cert_entailment,
        n_answered,
        n_correct,
        {{ subjects_and_deff('correct') }},
        {{ rate('correct', 'accuracy', 'ci') }},
        {{ mean_of('scons', 'scons', -1, 1) }},
        {{ mean_of('scons_entailment', 'scons_entailment', 0, 1) }},
        identical_answers,
        {{ mean_of('cert', 'cert', -1, 1) }},
        {{ mean_of('cert_entailment', 'cert_entailment', 0, 1) }},
        identical_samples,
        {{ mean_of('semantic_entropy', 'semantic_entropy', 0) }}
    from summed

)

select * from final
