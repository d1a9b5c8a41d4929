{%- set pair = ['dataset', 'prompt', 'model', 'parametric_method', 'retrieval_method'] -%}
with policies as (

    select
        found.{{ pair | join(', found.') }},
        found.policy,
        found.n_decided as n,
        found.policy_accuracy as accuracy,
        found.policy_accuracy_ci_low as ci_low,
        found.policy_accuracy_ci_high as ci_high,
        found.no_interval,
        found.policy_share_retrieved as share_retrieved,
        found.policy_cost_usd_per_1000 as cost_usd_per_1000,
        found.policy_gain as gain,
        found.policy_gain_ci_low as gain_ci_low,
        found.policy_gain_ci_high as gain_ci_high,
        found.no_gain_interval,
        found.gap_share,
        found.gap_share_ci_low as gap_ci_low,
        found.gap_share_ci_high as gap_ci_high,
        found.no_gap_interval,
        found.chosen_signals,
        found.policy_p_value as p_value
    from {{ ref('int_adaptive_signals') }} as found
    -- Statistics of an earlier state of the study have other pairs.
    semi join {{ ref('int_method_pairs') }} using ({{ pair | join(', ') }})
    where found.result = 'policies'

),

stepped as (

    select
        *,
        {{ holm_stepped('p_value', 'dataset') }} as p_stepped
    from policies

),

final as (

    select
        * exclude (p_stepped),
        {{ holm('p_value', 'p_stepped', 'dataset') }} as p_holm
    from stepped

)

select * from final
