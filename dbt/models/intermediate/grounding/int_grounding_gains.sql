{%- set key = 'dataset, model, method, grounding_prompt, compared_with' -%}
with pairs as (select * from {{ ref('int_grounding_pairs') }}),

-- Ratios are those of macro means (SPEC §9), undefined where the other texts quote nothing.
final as (
    {% for measure, score, is_ratio in [
        ('quip_ratio', 'quip', true),
        ('quip_difference', 'quip', false),
        ('same_length_ratio', 'same_length_quip', true),
        ('same_length_difference', 'same_length_quip', false),
        ('score_difference', 'score', false),
    ] %}
    select
        {{ key }},
        '{{ measure }}' as measure,
        count({{ score }} - base_{{ score }}) as n_paired,
        avg({{ score }}) as mean_value,
        avg(base_{{ score }}) as base_value,
        {{ 'mean_value / nullif(base_value, 0)' if is_ratio else 'mean_value - base_value' }} as value
    from pairs
    group by {{ key }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}

)

select * from final
