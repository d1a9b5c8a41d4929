with source as (

    select * from {{ source('lake', 'answer_embeddings') }}

),

final as (

    select
        text,
        embedding::float[384] as embedding,
        encoder
    from source

)

select * from final
