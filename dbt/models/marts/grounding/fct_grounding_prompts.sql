{%- set key = 'dataset, model, method, grounding_prompt' -%}
with means as (select * from {{ ref('int_grounding_means') }}),
models as (select * from {{ ref('stg_study__models') }}),

compared as (

    select * from {{ ref('int_grounding_comparisons') }}
    where compared_with = 'null_prompt'

),

ratios as (

    select * from compared
    where measure = 'quip_ratio'

),

differences as (

    select * from compared
    where measure = 'quip_difference'

),

scores as (

    select * from compared
    where measure = 'score_difference'

),

final as (

    select
        means.*,
        models.n_parameters,
        models.is_instruction_tuned,
        differences.n_paired,
        differences.base_value as null_quip,
        ratios.value as quip_ratio,
        ratios.value_ci_low as quip_ratio_ci_low,
        ratios.value_ci_high as quip_ratio_ci_high,
        differences.value as quip_difference,
        differences.value_ci_low as quip_difference_ci_low,
        differences.value_ci_high as quip_difference_ci_high,
        differences.p_value,
        differences.p_holm,
        scores.n_paired as n_scores_paired,
        scores.value as score_difference,
        scores.value_ci_low as score_difference_ci_low,
        scores.value_ci_high as score_difference_ci_high,
        scores.p_value as score_p_value,
        scores.p_holm as score_p_holm,
        scores.undefined as score_no_interval,
        case
            when means.grounding_kind = 'null' then 'null prompt'
            when differences.measure is null then 'no question with both'
            else coalesce(differences.undefined, ratios.undefined)
        end as undefined
    from means
    left join ratios using ({{ key }})
    left join differences using ({{ key }})
    left join scores using ({{ key }})
    left join models using (model)

)

select * from final
