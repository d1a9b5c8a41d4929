with source as (

    select * from {{ source('lake', 'sweep_settings') }}

),

final as (

    select
        tuned_model,
        base_model,
        trained_retriever,
        batch_size,
        reader_rate,
        retriever_rate,
        temperature,
        passages_per_query,
        training_relations
    from source

)

select * from final
