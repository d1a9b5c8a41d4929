with question_consistency as (

    select * from {{ ref('fct_question_consistency') }}

),

by_relation as (

    select
        * exclude (relation),
        unnest([relation, 'all']) as relation
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
        avg(is_correct::integer) as accuracy,
        avg(scons) as scons,
        avg(cert) as cert
    from by_relation
    group by dataset, prompt, model, relation

)

select * from final
