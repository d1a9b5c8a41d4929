-- Every measure is a sum over facts divided by another one: pooled within relations, and resampled by fact (SPEC §8).
with facts as (select * from {{ ref('int_fact_agreement') }}),

listed as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        question_id,
        unnest([
            {%- for change in changes_of_patterns() %}
            {
                'measure': 'consistency_{{ change }}',
                'numerator': n_equal_{{ change }}::double,
                'denominator': n_pairs_{{ change }}::double
            },
            {%- endfor %}
            {%- for measure, numerator, denominator in [
                ('consistency', 'n_equal', 'n_pairs'),
                ('consistency_same_lemma', 'n_equal_same_lemma', 'n_pairs_same_lemma'),
                ('consistency_other_lemma', 'n_equal_lemma - n_equal_same_lemma', 'n_pairs_lemma - n_pairs_same_lemma'),
                ('consistency_same_tense', 'n_equal_same_tense', 'n_pairs_same_tense'),
                ('consistency_other_tense', 'n_equal_tense - n_equal_same_tense', 'n_pairs_tense - n_pairs_same_tense'),
                ('consistency_known', 'if(n_fitting_correct > 0, n_equal, 0)', 'if(n_fitting_correct > 0, n_pairs, 0)'),
                ('consistency_unknown', 'if(n_fitting_correct = 0, n_equal, 0)', 'if(n_fitting_correct = 0, n_pairs, 0)'),
                ('consistency_known_all_patterns', 'if(n_correct > 0, n_equal, 0)', 'if(n_correct > 0, n_pairs, 0)'),
                ('consistency_unknown_all_patterns', 'if(n_correct = 0, n_equal, 0)', 'if(n_correct = 0, n_pairs, 0)'),
                ('entropy', 'sum_of_entropies', 'if(n_pairs > 0, n_fitting, 0)'),
                ('accuracy', 'is_correct::int', '1'),
                ('majority_accuracy', 'is_majority::int', '1'),
                ('mismatch', 'n_mismatches', 'n_patterns'),
                ('any_right', '(n_fitting_correct > 0)::int', '(n_fitting > 0)::int'),
                ('any_right_all_patterns', '(n_correct > 0)::int', '1'),
                ('all_right', '(n_patterns > 1 and n_correct = n_patterns)::int', '(n_patterns > 1)::int'),
                ('single_prediction', '(n_fitting > 1 and n_fitting_predictions = 1)::int', '(n_fitting > 1)::int'),
                ('single_prediction_all_patterns', '(n_patterns > 1 and n_predictions = 1)::int', '(n_patterns > 1)::int'),
                ('same_wrong', '(n_patterns > 1 and n_predictions = 1 and n_correct = 0)::int', '(n_patterns > 1)::int'),
            ] %}
            {
                'measure': '{{ measure }}',
                'numerator': ({{ numerator }})::double,
                'denominator': ({{ denominator }})::double
            }{{ ',' if not loop.last }}
            {%- endfor %}
        ]) as one
    from facts

),

final as (

    select
        * exclude (one),
        one['measure'] as measure,
        one['numerator'] as numerator,
        one['denominator'] as denominator
    from listed

)

select * from final
