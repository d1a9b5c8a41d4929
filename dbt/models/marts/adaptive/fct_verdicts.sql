{%- set key = 'dataset, prompt, model, method' -%}
{%- set pair = key ~ ', retrieval_method' -%}
{%- set prefixes = {'popularity': '', 'best_signal': 'best_signal_'} -%}
with memory as (

    select * from {{ ref('fct_accuracy') }}
    where relation = 'all' and method in (select m.method from {{ ref('dim_methods') }} as m where m.kind = 'memory')

),

signals as (

    select
        {{ key }},
        {%- for signal in ['popularity', 'best_signal'] %}
        {%- for end in ['', '_ci_low', '_ci_high'] %}
        max(auroc{{ end }}) filter (where signal = '{{ signal }}') as {{ signal }}_auroc{{ end }},
        {%- endfor %}
        {%- endfor %}
        max(chosen_signals) as chosen_signals
    from {{ ref('fct_signal_quality') }}
    group by {{ key }}

),

-- One threshold for each relation, as in PopQA; where no relation is known, there is but one for all.
pairs as (

    select
        {%- for policy, name in [('always', 'passages'), ('oracle', 'either')] %}
        {%- for column in ['accuracy', 'ci_low', 'ci_high'] %}
        max({{ column }}) filter (where policy = '{{ policy }}') as {{ name }}_{{ column }},
        {%- endfor %}
        {%- endfor %}
        {%- for name in prefixes %}
        max_by(struct_pack(policy, gain, gain_ci_low, gain_ci_high, no_gain_interval), policy) filter (
            where policy in ('{{ name }}', '{{ name }}_per_relation')
        ) as by_{{ name }},
        {%- endfor %}
        {{ pair.replace('method', 'parametric_method as method', 1) }}
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
        memory.ci_high as memory_ci_high, pairs.* exclude ({{ pair }}, by_popularity, by_best_signal), -- noqa: RF02
        pairs.by_popularity['policy'] as popularity_policy,
        {%- for name, prefix in prefixes.items() %}
        {%- for end in ['', '_ci_low', '_ci_high'] %}
        pairs.by_{{ name }}['gain{{ end }}'] as {{ name }}_gain{{ end }},
        {%- endfor %}
        pairs.by_{{ name }}['no_gain_interval'] as no_{{ prefix }}gain_interval,
        case
            when pairs.retrieval_method is null then 'not known: no passages'
            when pairs.by_{{ name }} is null then 'not known: no {{ name.split('_')[-1] }}'
            when {{ name }}_gain_ci_low is null then 'not known: ' || no_{{ prefix }}gain_interval
            when {{ name }}_gain_ci_low > 0 then 'gains'
            when {{ name }}_gain_ci_high < 0 then 'loses'
            else 'gains nothing'
        end as {{ prefix }}verdict,
        {%- endfor %}
        signals.* exclude ({{ key }})
    from memory
    left join signals using ({{ key }})
    left join pairs using ({{ key }})

)

select * from final
