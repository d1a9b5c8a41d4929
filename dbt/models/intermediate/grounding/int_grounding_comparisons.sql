{%- set key = 'dataset, model, method, grounding_prompt, compared_with, measure' -%}
{%- set family = 'dataset, model, method, compared_with, measure' -%}
with gains as (select * from {{ ref('int_grounding_gains') }}),
tested as (select * from {{ ref('int_grounding_intervals') }}),

joined as (

    select
        {{ key }},
        n_paired,
        gains.mean_value,
        gains.base_value,
        gains.value,
        tested.n_subjects,
        tested.value_low as value_ci_low,
        tested.value_high as value_ci_high,
        tested.p_value,
        case
            when n_paired = 0 then 'no question with both'
            when tested.n_resamples is null then 'not computed'
            else tested.no_interval
        end as undefined
    from gains
    -- Also by the number of questions: an interval over others does not belong to this row.
    left join tested using ({{ key }}, n_paired)

),

stepped as (

    select
        *,
        {{ holm_stepped('p_value', family) }} as p_stepped
    from joined

),

final as (

    select
        * exclude (p_stepped),
        {{ holm('p_value', 'p_stepped', family) }} as p_holm
    from stepped

)

select * from final
