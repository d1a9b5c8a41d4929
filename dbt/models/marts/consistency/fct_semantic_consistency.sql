with question_consistency as (select * from {{ ref('fct_question_consistency') }}),

by_relation as (

    select
        * exclude (relation),
        {{ relation_groups() }} as relation
    from question_consistency

),

final as (

    select
        dataset,
        prompt,
        model,
        relation,
        count(*) as n,
        count(scons) as n_scons,
        count(cert) as n_cert,
        count(scons_entailment) as n_scons_entailment,
        count(cert_entailment) as n_cert_entailment,
        count(*) filter (where is_correct) as n_correct,
        n_correct / n as accuracy,
        {{ wilson_low('n_correct', 'n') }} as ci_low,
        {{ wilson_high('n_correct', 'n') }} as ci_high,
        avg(scons) as scons,
        {{ mean_interval('scons', -1, 1) }},
        avg(scons_entailment) as scons_entailment,
        {{ mean_interval('scons_entailment', 0, 1) }},
        avg(identical_answers) as identical_answers,
        avg(cert) as cert,
        {{ mean_interval('cert', -1, 1) }},
        avg(cert_entailment) as cert_entailment,
        {{ mean_interval('cert_entailment', 0, 1) }},
        avg(identical_samples) as identical_samples,
        avg(semantic_entropy) as semantic_entropy,
        {{ mean_interval('semantic_entropy', 0) }}
    from by_relation
    group by dataset, prompt, model, relation

)

select * from final
