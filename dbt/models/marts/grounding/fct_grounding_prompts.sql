{%- set one = 'dataset, model, method' -%}
with means as (

    select * from {{ ref('int_grounding_means') }}

),

gains as (

    select * from {{ ref('int_grounding_gains') }}

),

models as (

    select * from {{ ref('stg_study__models') }}

),

tested as (

    select * from {{ ref('stg_study__grounding_intervals') }}

),

joined as (

    select
        means.*,
        models.n_parameters,
        models.is_instruction_tuned,
        gains.* exclude (dataset, model, method, grounding_prompt),
        ratio.value_low as quip_ratio_ci_low,
        ratio.value_high as quip_ratio_ci_high,
        difference.value_low as quip_difference_ci_low,
        difference.value_high as quip_difference_ci_high,
        difference.p_value,
        score.value_low as score_difference_ci_low,
        score.value_high as score_difference_ci_high,
        score.p_value as score_p_value,
        case
            when means.grounding_kind = 'null' then 'null prompt'
            when coalesce(gains.n_paired, 0) = 0 then 'no question with both'
            when difference.measure is null then 'not computed'
            else coalesce(difference.undefined, ratio.undefined)
        end as undefined
    from means
    left join gains using ({{ one }}, grounding_prompt)
    left join models on means.model = models.model
    -- Also by the number of questions: an interval over others does not belong to this row.
    left join tested as ratio
        on {{ is_interval_of('ratio', 'quip_ratio', 'n_paired') }}
    left join tested as difference
        on {{ is_interval_of('difference', 'quip_difference', 'n_paired') }}
    left join tested as score
        on {{ is_interval_of('score', 'score_difference', 'n_scores_paired') }}

),

stepped as (

    select
        *,
        {{ holm_stepped('p_value', one) }} as p_stepped,
        {{ holm_stepped('score_p_value', one) }} as score_p_stepped
    from joined

),

final as (

    select
        * exclude (p_stepped, score_p_stepped),
        {{ holm('p_value', 'p_stepped', one) }} as p_holm,
        {{ holm('score_p_value', 'score_p_stepped', one) }} as score_p_holm
    from stepped

)

select * from final
