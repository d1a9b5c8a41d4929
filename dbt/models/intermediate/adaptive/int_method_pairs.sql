with final as (

    select
        pair_id,
        dataset,
        prompt,
        model,
        parametric_method,
        retrieval_method,
        count(subject_popularity) as n_questions,
        count(*) - count(subject_popularity) as n_missing_popularity,
        count(*) filter (where subject_popularity is null and parametric_correct) as n_missing_parametric_correct,
        count(*) filter (where subject_popularity is null and retrieval_correct) as n_missing_retrieval_correct
    from {{ ref('int_answer_pairs') }}
    where pair_id is not null
    group by pair_id, dataset, prompt, model, parametric_method, retrieval_method

)

select * from final
