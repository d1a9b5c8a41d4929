with source as (

    select * from {{ source('lake', 'answer_embeddings') }}
    where {{ is_declared(['model']) }}

),

final as (

    select
        model,
        text,
        embedding::float[384] as embedding,
        encoder
    from source

)

select * from final
