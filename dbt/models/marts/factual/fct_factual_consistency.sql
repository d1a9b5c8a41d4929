{%- set key = 'dataset, prompt, model, method' -%}
with by_relation as (

    select
        {{ key }},
        relation,
        measure,
        count(*) filter (where denominator > 0) as n_facts,
        sum(denominator) as n,
        sum(numerator) / nullif(sum(denominator), 0) as value
    from {{ ref('int_fact_measures') }}
    group by {{ key }}, relation, measure

),

-- Pooled within relations; then every relation counts alike.
of_all as (

    select
        {{ key }},
        'all' as relation,
        measure,
        sum(n_facts)::bigint as n_facts,
        count(value) as n_relations,
        sum(n) as n,
        avg(value) as value
    from by_relation
    group by {{ key }}, measure

),

together as (

    select
        *,
        (n > 0)::bigint as n_relations
    from by_relation
    union all by name
    select * from of_all

),

intervals as (

    select * from {{ ref('stg_study__factual_consistency_intervals') }}
    where bin is null

),

final as (

    select
        together.dataset,
        together.prompt,
        together.model,
        together.method,
        together.relation,
        together.measure,
        together.n_facts,
        together.n_relations,
        together.n,
        together.value,
        intervals.value_low as ci_low,
        intervals.value_high as ci_high,
        intervals.undefined as ci_undefined
    from together
    left join intervals using ({{ key }}, relation, measure)

)

select * from final
