with source as (

    select * from {{ source('lake', 'tuned_answers') }}
    where tuned_model in (select settings.tuned_model from {{ ref('stg_study__sweep_settings') }} as settings)

),

final as (

    select
        tuned_model,
        step,
        split,
        dataset,
        question_id,
        paraphrase_id,
        relation,
        prediction,
        log_likelihood,
        is_correct
    from source

)

select * from final
