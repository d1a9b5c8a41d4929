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
        -- Fisher's z
        case when abs(pearson) < 1 - 1e-12 then atanh(pearson) end as z,
        1.959963984540054 / sqrt(nullif(greatest(n_relations - 3, 0), 0)) as half_width,
        tanh(z - half_width) as ci_low,
        tanh(z + half_width) as ci_high,
        coalesce(undefined, if(z is null, 'the relations lie on one line', null)) as no_interval
    from correlated

)

select * exclude (z, half_width) from final
