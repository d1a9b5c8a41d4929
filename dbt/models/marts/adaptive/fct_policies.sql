{%- set pair = ['dataset', 'prompt', 'model', 'parametric_method', 'retrieval_method'] -%}
with policies as (

    select
        {{ pair | join(', ') }},
        policy,
        n_decided as n,
        policy_accuracy as accuracy,
        policy_accuracy_ci_low as ci_low,
        policy_accuracy_ci_high as ci_high,
        policy_share_retrieved as share_retrieved,
        policy_cost_usd_per_1000 as cost_usd_per_1000,
        policy_gain as gain,
        policy_gain_ci_low as gain_ci_low,
        policy_gain_ci_high as gain_ci_high,
        gap_share,
        gap_share_ci_low as gap_ci_low,
        gap_share_ci_high as gap_ci_high,
        policy_p_value as p_value
    from {{ ref('stg_statistics__policies') }}
    -- Statistics of an earlier state of the study have other pairs.
    semi join {{ ref('int_method_pairs') }} using ({{ pair | join(', ') }})

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
