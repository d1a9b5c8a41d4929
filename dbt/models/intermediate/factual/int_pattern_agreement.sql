{%- set fact = 'dataset, prompt, model, method, question_id' -%}
-- Ordered pairs of a fact's patterns are counted, never made: each answer has as many partners as there are others.
with answers as (

    select * from {{ ref('int_candidate_answers') }}
    where has_fitting_article

),

counted as (

    select
        {{ fact }},
        paraphrase_id,
        {%- for kind in ['lemma', 'tense'] %}
        {%- for name, counted, alike in [
            ('n_pairs', 'count(' ~ kind ~ ')', fact),
            ('n_equal', 'count(' ~ kind ~ ')', fact ~ ', prediction'),
            ('n_pairs_same', 'count(*)', fact ~ ', ' ~ kind),
            ('n_equal_same', 'count(*)', fact ~ ', ' ~ kind ~ ', prediction'),
        ] %}
        if({{ kind }} is null, 0, {{ counted }} over (partition by {{ alike }}) - 1) as {{ name }}_{{ kind }},
        {%- endfor %}
        {%- endfor %}
        count(*) over (partition by {{ fact }}) - 1 as n_pairs,
        count(*) over (partition by {{ fact }}, prediction) - 1 as n_equal
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
