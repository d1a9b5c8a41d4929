with question_consistency as (select * from {{ ref('int_question_consistency') }}),
questions as (select * from {{ ref('int_questions') }}),

joined as (

    select
        question_consistency.dataset,
        question_consistency.prompt,
        question_consistency.model,
        question_consistency.question_id,
        questions.relation,
        questions.cluster_id as subject,
        question_consistency.is_correct,
        questions.subject_popularity,
        -- Cosines of single-precision vectors: differences below a millionth are rounding, and no predictor.
        round(question_consistency.scons, 6) as scons,
        round(question_consistency.cert, 6) as cert
    from question_consistency
    left join questions using (dataset, question_id)

),

final as (

    select
        *,
        case
            when is_correct is null then 'no answer'
            when relation is null then 'no relation'
            when subject_popularity is null then 'no popularity'
            when subject_popularity <= 0 then 'popularity 0'
            when scons is null then 'no consistency'
            when cert is null then 'no certainty'
        end as undefined
    from joined

)

select * from final
