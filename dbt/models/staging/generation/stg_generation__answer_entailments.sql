with source as (

    select * from {{ source('lake', 'answer_entailments') }}
    where {{ is_declared(['model']) }}

),

final as (

    select
        asked,
        dataset,
        question_id,
        model,
        prompt,
        mean_entailment,
        n_pairs,
        classifier
    from source

)

select * from final
