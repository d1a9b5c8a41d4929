with source as (

    select * from {{ source('lake', 'question_predictions') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}

),

final as (

    select
        dataset,
        prompt,
        model,
        question_id,
        estimator,
        signal,
        fold,
        probability,
        undefined
    from source

)

select * from final
