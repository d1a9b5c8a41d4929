with candidate_triples as (select * from {{ ref('stg_questions__candidate_triples') }}),

decades as (

    select
        *,
        floor(log10(nullif(popularity, 0)))::integer as decade
    from candidate_triples

),

final as (

    select
        subject_id,
        property_id,
        object_id,
        relation,
        popularity_measure,
        factor,
        outcome,
        power(10.0, decade) as decade_low,
        case
            when popularity is null then 'missing'
            when popularity = 0 then 'zero'
            else format('[1e{},1e{})', decade, decade + 1)
        end as popularity_decade,
        -- f > exp(8R - 6) with R uniform: the probability is (ln f + 6) / 8, cut to [0, 1].
        case
            when outcome in ('no_frequency', 'no_label') or frequency = 0 then 0.0
            else least(greatest((ln(frequency) + 6) / 8, 0.0), 1.0)
        end as chance
    from decades

)

select * from final
