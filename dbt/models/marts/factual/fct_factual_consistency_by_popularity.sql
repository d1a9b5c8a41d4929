{%- set key = 'dataset, prompt, model, method' -%}
-- Relations are pooled: a bin has too few linked subjects of most of them for a mean over relations.
with bins as (

    select * from {{ ref('int_question_bins') }}
    where relation = 'all'

),

counted as (

    select
        {{ key }},
        bins.bin,
        measures.measure,
        any_value(bins.bin_low) as bin_low,
        any_value(bins.bin_high) as bin_high,
        any_value(bins.bin_center_log10) as bin_center_log10,
        count(*) filter (where measures.denominator > 0) as n_facts,
        sum(measures.denominator) as n,
        sum(measures.numerator order by measures.numerator) / nullif(sum(measures.denominator), 0) as value
    from {{ ref('int_fact_measures') }} as measures
    inner join bins using (dataset, question_id)
    group by {{ key }}, bins.bin, measures.measure

),

final as (

    select
        counted.*,
        intervals.n_subjects,
        intervals.value_low as ci_low,
        intervals.value_high as ci_high,
        if(intervals.value_low is null, coalesce(intervals.no_interval, 'not computed'), null) as no_interval
    from counted
    left join {{ ref('int_factual_consistency_intervals') }} as intervals using ({{ key }}, bin, measure)

)

select * from final
