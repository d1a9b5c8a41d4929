with predictions as (select * from {{ ref('int_question_predictions') }}),
questions as (select * from {{ ref('int_prediction_rows') }}),

final as (

    select
        predictions.dataset,
        predictions.prompt,
        predictions.model,
        predictions.question_id,
        questions.relation,
        questions.is_correct,
        predictions.estimator,
        predictions.signal,
        predictions.fold,
        predictions.probability,
        predictions.undefined
    from predictions
    inner join questions using (dataset, prompt, model, question_id)

)

select * from final
