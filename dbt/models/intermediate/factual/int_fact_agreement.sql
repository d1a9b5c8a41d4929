{%- set fact = 'dataset, prompt, model, method, question_id' -%}
{%- set counts = [
    'n_pairs', 'n_equal',
    'n_pairs_lemma', 'n_pairs_same_lemma', 'n_equal_lemma', 'n_equal_same_lemma',
    'n_pairs_tense', 'n_pairs_same_tense', 'n_equal_tense', 'n_equal_same_tense',
] -%}
{%- for kind in changes_of_patterns() %}{% do counts.extend(['n_pairs_' ~ kind, 'n_equal_' ~ kind]) %}{% endfor -%}
with answers as (select * from {{ ref('int_candidate_answers') }}),

pairs as (

    select
        {{ fact }},
        count(*) as n_fitting,
        {%- for count in counts %}
        sum({{ count }})::bigint as {{ count }},
        {%- endfor %}
        -- in a fixed order: the last digit of a sum of fractions depends on it
        coalesce(sum(entropy order by entropy), 0) as sum_of_entropies
    from {{ ref('int_pattern_agreement') }}
    group by {{ fact }}

),

facts as (

    select
        {{ fact }},
        any_value(relation) as relation,
        any_value(subject) as subject,
        any_value(gold_answer) as gold_answer,
        any_value(subject_popularity) as subject_popularity,
        count(*) as n_patterns,
        count(*) filter (where is_correct) as n_correct,
        count(*) filter (where is_mismatch) as n_mismatches,
        count(distinct prediction) as n_predictions,
        count(*) filter (where is_correct and has_fitting_article) as n_fitting_correct,
        count(distinct prediction) filter (where has_fitting_article) as n_fitting_predictions,
        arg_min(prediction, paraphrase_id) as first_prediction,
        arg_min(is_correct, paraphrase_id) as is_correct
    from answers
    group by {{ fact }}

),

final as (

    select
        facts.*,
        coalesce(pairs.n_fitting, 0) as n_fitting,
        {%- for count in counts %}
        coalesce(pairs.{{ count }}, 0) as {{ count }},
        {%- endfor %}
        pairs.n_equal / nullif(pairs.n_pairs, 0) as agreement,
        coalesce(pairs.sum_of_entropies, 0) as sum_of_entropies,
        if(pairs.n_fitting > 1, pairs.sum_of_entropies / pairs.n_fitting, null) as entropy,
        facts.gold_answer = majority_answers.majority_answer as is_majority
    from facts
    left join pairs using ({{ fact }})
    left join {{ ref('int_majority_answers') }} as majority_answers using (dataset, relation)

)

select * from final
