{%- set baselines = {
    'gain': 'fixed', 'gain_over_popularity_all': 'popularity_all',
    'gain_over_popularity_per_relation': 'popularity_per_relation',
} -%}
{%- set measures = [
    'n_compared', 'n_zero_popularity', 'n_no_measures', 'n_no_confidence', 'n_one_outcome', 'accuracy', 'accuracy_always',
    'accuracy_never', 'accuracy_fixed', 'share_retrieved', 'signal_tokens_per_1000', 'signal_device_seconds_per_1000',
    'signal_cost_usd_per_1000', 'signal_latency_ms',
] -%}
{%- set pair = ['dataset', 'prompt', 'model', 'parametric_method', 'retrieval_method'] -%}
with policies as (select * from {{ ref('int_adaptive_signals') }} where result = 'signals'),

gains as (

    select
        {{ pair | join(', ') }},
        signal,
        threshold_scope,
        {%- for name, baseline in baselines.items() %}
        max(gain) filter (where baseline = '{{ baseline }}') as {{ name }},
        max(gain_ci_low) filter (where baseline = '{{ baseline }}') as {{ name }}_ci_low,
        max(gain_ci_high) filter (where baseline = '{{ baseline }}') as {{ name }}_ci_high,
        max(gain_ci_undefined) filter (where baseline = '{{ baseline }}') as {{ name }}_ci_undefined
        {%- if not loop.last %},{% endif %}{% endfor %}
    from {{ ref('int_adaptive_signal_gains') }}
    group by {{ pair | join(', ') }}, signal, threshold_scope

),

expected as (

    select
        {{ pair | join(', ') }},
        method_pairs.n_questions,
        method_pairs.n_missing_popularity,
        if(signals.signal in ('popularity', 'confidence'), 'exact', 'predicted') as search,
        signals.signal,
        scopes.threshold_scope
    from {{ ref('int_method_pairs') }} as method_pairs
    cross join (
        values
        ('popularity'), ('confidence'), ('popularity_relation'), ('popularity_confidence'), ('consistency'), ('all')
    ) as signals (signal)
    cross join (values ('per_relation'), ('all')) as scopes (threshold_scope)

),

final as (

    select
        expected.*,
        {%- for column in measures %}
        policies.{{ column }},
        {%- endfor %}
        coalesce(policies.n_splits, 0) as n_splits,
        gains.* exclude ({{ pair | join(', ') }}, signal, threshold_scope),  -- noqa: RF02
        policies.device_seconds_per_1000 + policies.signal_device_seconds_per_1000 as device_seconds_per_1000,
        policies.cost_usd_per_1000 + policies.signal_cost_usd_per_1000 as cost_usd_per_1000,
        policies.answer_latency_ms + policies.signal_latency_ms as single_latency_ms_adaptive,
        case
            when expected.signal != 'popularity' then coalesce(
                {%- for name in baselines %}
                {% if not loop.first %}and {% endif %}gains.{{ name }}_ci_low > 0
                and gains.{{ name }}_ci_undefined is null
                {%- endfor %},
                false
            )
        end as is_surely_better,
        case
            when expected.n_questions = 0 then 'no questions with popularity'
            when policies.n_questions is null then 'not compared'
            else policies.undefined
        end as undefined
    from expected
    left join policies using ({{ pair | join(', ') }}, n_questions, signal, threshold_scope)
    left join gains using ({{ pair | join(', ') }}, signal, threshold_scope)

)

select * from final
