with source as (

    select * from {{ source('lake', 'tuned_models') }}
    where tuned_model in (select settings.tuned_model from {{ ref('stg_study__sweep_settings') }} as settings)

),

final as (

    select
        tuned_model,
        step,
        loss,
        retriever_loss,
        n_training_queries,
        n_held_out_queries,
        held_out_right,
        is_kept,
        folder,
        folder_revision
    from source

)

select * from final
