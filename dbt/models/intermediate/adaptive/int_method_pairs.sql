with answer_pairs as (

    select * from {{ ref('int_answer_pairs') }}
    where retrieval_method not in (
        select methods.method from {{ ref('stg_study__methods') }} as methods
        where methods.is_condition
    )

),

grouped as (

    select
        dataset,
        prompt,
        model,
        parametric_method,
        retrieval_method,
        count(subject_popularity) as n_questions,
        count(*) - count(subject_popularity) as n_missing_popularity,
        count(*) filter (where subject_popularity is null and parametric_correct) as n_missing_parametric_correct,
        count(*) filter (where subject_popularity is null and retrieval_correct) as n_missing_retrieval_correct
    from answer_pairs
    group by dataset, prompt, model, parametric_method, retrieval_method

),

final as (

    select
        row_number() over (
            order by dataset, prompt, model, parametric_method, retrieval_method
        )::integer as pair_id,
        *
    from grouped

)

select * from final
