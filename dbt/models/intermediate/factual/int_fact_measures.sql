-- Every measure is a sum over facts divided by another one: pooled within relations, and resampled by fact (SPEC §8).
with facts as (

    select * from {{ ref('int_fact_agreement') }}

),

listed as (

    select
        dataset,
        prompt,
        model,
        method,
        relation,
        question_id,
        unnest([
            {%- for measure, numerator, denominator in [
                ('consistency', 'n_equal', 'n_pairs'),
                ('consistency_same_lemma', 'n_equal_same_lemma', 'n_pairs_same_lemma'),
                ('consistency_other_lemma', 'n_equal_lemma - n_equal_same_lemma', 'n_pairs_lemma - n_pairs_same_lemma'),
                ('consistency_same_tense', 'n_equal_same_tense', 'n_pairs_same_tense'),
                ('consistency_other_tense', 'n_equal_tense - n_equal_same_tense', 'n_pairs_tense - n_pairs_same_tense'),
                ('consistency_known', 'if(n_correct > 0, n_equal, 0)', 'if(n_correct > 0, n_pairs, 0)'),
                ('consistency_unknown', 'if(n_correct = 0, n_equal, 0)', 'if(n_correct = 0, n_pairs, 0)'),
                ('entropy', 'sum_of_entropies', 'if(n_pairs > 0, n_fitting, 0)'),
                ('accuracy', 'is_correct::int', '1'),
                ('majority_accuracy', 'is_majority::int', '1'),
                ('mismatch', 'n_mismatches', 'n_patterns'),
                ('any_right', '(n_correct > 0)::int', '1'),
                ('all_right', '(n_patterns > 1 and n_correct = n_patterns)::int', '(n_patterns > 1)::int'),
                ('single_prediction', '(n_patterns > 1 and n_predictions = 1)::int', '(n_patterns > 1)::int'),
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
