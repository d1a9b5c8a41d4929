{%- set key = 'dataset, prompt, model, method' -%}
with measures as (

    select
        {{ key }},
        relation,
        measure,
        numerator,
        denominator
    from {{ ref('int_fact_measures') }}
    union all by name
    -- The one measure that counts patterns and not facts; the first form leaves out answers whose article does not fit.
    {%- for measure, asked in [
        ('pattern_any_right', 'has_fitting_article'),
        ('pattern_any_right_all_patterns', 'true'),
    ] %}
    select
        {{ key }},
        relation,
        '{{ measure }}' as measure,
        bool_or(is_correct)::double as numerator,
        1::double as denominator
    from {{ ref('int_candidate_answers') }}
    where {{ asked }}
    group by {{ key }}, relation, paraphrase_id
    {{ 'union all by name' if not loop.last }}
    {%- endfor %}

),

together as (

    {{ means_over_relations('measures', key) }}

),

intervals as (

    select * from {{ ref('int_factual_consistency_intervals') }}
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
        intervals.n_subjects,
        intervals.value_low as ci_low,
        intervals.value_high as ci_high,
        case
            when starts_with(measure, 'pattern_any_right') then 'depends on the number of facts'
            when intervals.value_low is null then coalesce(intervals.no_interval, 'not computed')
        end as no_interval
    from together
    left join intervals using ({{ key }}, relation, measure)

)

select * from final
