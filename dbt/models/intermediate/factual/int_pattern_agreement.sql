{%- set fact = 'dataset, prompt, model, method, question_id' -%}
-- Ordered pairs of a fact's patterns are counted, never made: each answer has as many partners as there are others.
with answers as (

    select
        answers.*,
        patterns.changes
    from {{ ref('int_candidate_answers') }} as answers
    left join {{ ref('stg_questions__patterns') }} as patterns using (dataset, relation, paraphrase_id)
    where answers.has_fitting_article

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
        count(*) over (partition by {{ fact }}, prediction) - 1 as n_equal,
        changes, -- to itself: null
        list(paraphrase_id) over (partition by {{ fact }}) as paired,
        list(paraphrase_id) over (partition by {{ fact }}, prediction) as equal
    from answers

),

final as (

    select
        * exclude (changes, paired, equal),
        {%- for change in changes_of_patterns() %}
        len(list_filter(paired, lambda other: changes[other + 1] = '{{ change }}')) as n_pairs_{{ change }},
        len(list_filter(equal, lambda other: changes[other + 1] = '{{ change }}')) as n_equal_{{ change }},
        {%- endfor %}
        n_equal / nullif(n_pairs, 0) as agreement,
        case
            when n_pairs = 0 then null
            when n_equal in (0, n_pairs) then 0
            else -agreement * log2(agreement) - (1 - agreement) * log2(1 - agreement)
        end as entropy
    from counted

)

select * from final
