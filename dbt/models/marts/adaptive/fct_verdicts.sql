{%- set pair = 'dataset, prompt, model, method, retrieval_method' -%}
{%- set fixed = [('always', 'passages'), ('oracle', 'either')] -%}
with memory as (

    select accuracies.*
    from {{ ref('fct_accuracy') }} as accuracies
    inner join {{ ref('dim_methods') }} as methods using (method)
    where accuracies.relation = 'all' and methods.kind = 'memory'

),

signals as (

    select
        dataset,
        prompt,
        model,
        method,
        {%- for signal in ['popularity', 'best_signal'] %}
        {%- for end in ['', '_ci_low', '_ci_high'] %}
        max(auroc{{ end }}) filter (where signal = '{{ signal }}') as {{ signal }}_auroc{{ end }},
        {%- endfor %}
        {%- endfor %}
        max(chosen_signals) as chosen_signals
    from {{ ref('fct_signal_quality') }}
    group by dataset, prompt, model, method

),

-- One threshold for each relation, as in PopQA; where no relation is known, there is but one for all.
pairs as (

    select
        {{ pair.replace('method', 'parametric_method as method', 1) }},
        {%- for policy, name in fixed %}
        {%- for column in ['accuracy', 'ci_low', 'ci_high'] %}
        max({{ column }}) filter (where policy = '{{ policy }}') as {{ name }}_{{ column }},
        {%- endfor %}
        {%- endfor %}
        max_by(
            struct_pack(
                popularity_policy := policy, popularity_gain := gain, popularity_gain_ci_low := gain_ci_low,
                popularity_gain_ci_high := gain_ci_high, no_gain_interval
            ),
            policy
        ) filter (where policy in ('popularity', 'popularity_per_relation')) as by_popularity
    from {{ ref('fct_policies') }}
    group by all

),

final as (

    select
        dataset,
        memory.prompt,
        memory.model,
        method as parametric_method,
        coalesce(pairs.retrieval_method, 'none') as retrieval_method,
        memory.n,
        memory.accuracy as memory_accuracy,
        memory.ci_low as memory_ci_low,
        memory.ci_high as memory_ci_high, pairs.* exclude ({{ pair }}, by_popularity), -- noqa: RF02
        signals.* exclude (dataset, prompt, model, method),
        unnest(pairs.by_popularity), -- noqa: AL03
        case
            when pairs.retrieval_method is null then 'not known: no passages'
            when pairs.by_popularity is null then 'not known: no popularity'
            when pairs.by_popularity['popularity_gain_ci_low'] > 0 then 'gains'
            when pairs.by_popularity['popularity_gain_ci_high'] < 0 then 'loses'
            else 'gains nothing'
        end as verdict
    from memory
    left join signals using (dataset, prompt, model, method)
    left join pairs using (dataset, prompt, model, method)

)

select * from final
