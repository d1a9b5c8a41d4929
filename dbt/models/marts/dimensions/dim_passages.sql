with passages as (

    select * from {{ ref('stg_retrieval__passages') }}

),

final as (

    select
        passage_id,
        entity_id,
        title,
        position,
        text,
        source
    from passages

)

select * from final
