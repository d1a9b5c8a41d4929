with models as (select * from {{ ref('int_prediction_regressions') }} where result = 'models'),

final as (

    select
        dataset,
        prompt,
        model,
        setting,
        predictors,
        fit,
        n_questions,
        n_no_answer,
        n_no_relation,
        n_no_popularity,
        n_zero_popularity,
        n_no_consistency,
        n_no_certainty,
        n_hard_relations,
        n_fitted,
        n_correct,
        n_relations,
        n_separated,
        n_separated_questions,
        n_undetermined,
        base_relation,
        n_coefficients,
        log_likelihood,
        log_likelihood_null,
        mcfadden_r2,
        aic,
        undefined,
        n_scored,
        n_scored_subjects,
        score_deff,
        n_scored_unseen,
        n_hits,
        n_hits_baseline,
        score_undefined,
        {{ rate_of('n_hits', 'n_scored', 'n_scored_subjects', 'score_deff', 'accuracy', 'ci') }},
        n_hits_baseline / nullif(n_scored, 0) as baseline,
        n_hits / nullif(n_hits_baseline, 0) - 1 as gain
    from models

)

select * from final
