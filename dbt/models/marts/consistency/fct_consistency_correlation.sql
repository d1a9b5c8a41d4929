{%- set measures = ['scons', 'cert'] -%}
with semantic_consistency as (

    select * from {{ ref('fct_semantic_consistency') }}
    where relation <> 'all'

),

by_measure as (
    {% for measure in measures %}
    select
        dataset,
        prompt,
        model,
        '{{ measure }}' as measure,
        accuracy,
        {{ measure }} as measured
    from semantic_consistency
    where {{ measure }} is not null
    {{ 'union all' if not loop.last }}
    {%- endfor %}

),

correlated as (

    select
        dataset,
        prompt,
        model,
        measure,
        count(*) as n_relations,
        {{ correlation('measured', 'accuracy', minimum=4) }} as pearson,
        {{ why_undefined('measured', 'accuracy', 'the measure', 'accuracy', 'relations', minimum=4) }} as undefined
    from by_measure
    group by dataset, prompt, model, measure

),

final as (

    select
        *,
        -- Fisher's z. A correlation of exactly 1 has no interval but itself.
        if(abs(pearson) < 1, tanh(atanh(pearson) - 1.959963984540054 / sqrt(n_relations - 3)), pearson) as ci_low,
        if(abs(pearson) < 1, tanh(atanh(pearson) + 1.959963984540054 / sqrt(n_relations - 3)), pearson) as ci_high
    from correlated

)

select * from final
