{%- set key = 'dataset, prompt, model, method' -%}
with together as (

    {{ means_over_relations(ref('int_fact_measures'), key) }}

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
