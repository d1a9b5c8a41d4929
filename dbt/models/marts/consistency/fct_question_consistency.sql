with question_consistency as (

    select * from {{ ref('int_question_consistency') }}

),

final as (

    select
        dataset,
        prompt,
        question_id,
        relation,
        model,
        n_answers,
        n_empty_answers,
        is_correct,
        n_paraphrases,
        scons,
        identical_answers,
        n_samples,
        n_empty_samples,
        cert,
        identical_samples,
        n_clusters,
        semantic_entropy
    from question_consistency

)

select * from final
