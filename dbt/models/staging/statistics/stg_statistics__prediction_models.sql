with source as (

    select * from {{ source('lake', 'prediction_models') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}

),

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
        n_scored_unseen,
        n_hits,
        n_hits_baseline,
        score_undefined
    from source

)

select * from final
