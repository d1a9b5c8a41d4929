{%- set fact = 'dataset, prompt, model, method, question_id' -%}
{%- macro known_partners(kind, counted, alike) -%}
if({{ kind }} is null, 0, {{ counted }} over (partition by {{ alike }}) - 1)
{%- endmacro -%}
-- Ordered pairs of a fact's patterns are counted, never made: each answer has as many partners as there are others.
with answers as (

    select * from {{ ref('int_candidate_answers') }}
    where has_fitting_article

),

counted as (

    select
        {{ fact }},
        paraphrase_id,
        count(*) over (partition by {{ fact }}) - 1 as n_pairs,
        count(*) over (partition by {{ fact }}, prediction) - 1 as n_equal,
        {%- for kind in ['lemma', 'tense'] %}
        {{ known_partners(kind, 'count(' ~ kind ~ ')', fact) }} as n_pairs_{{ kind }},
        {{ known_partners(kind, 'count(' ~ kind ~ ')', fact ~ ', prediction') }} as n_equal_{{ kind }},
        {{ known_partners(kind, 'count(*)', fact ~ ', ' ~ kind) }} as n_pairs_same_{{ kind }},
        {{ known_partners(kind, 'count(*)', fact ~ ', ' ~ kind ~ ', prediction') }} as n_equal_same_{{ kind }}
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    from answers

),

final as (

    select
        *,
        n_equal / nullif(n_pairs, 0) as agreement,
        case
            when n_pairs = 0 then null
            when n_equal in (0, n_pairs) then 0
            else -agreement * log2(agreement) - (1 - agreement) * log2(1 - agreement)
        end as entropy
    from counted

)

select * from final
