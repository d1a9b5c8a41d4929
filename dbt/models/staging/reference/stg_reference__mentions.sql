with source as (

    select * from {{ source('lake', 'reference_mentions') }}

),

final as (

    select
        dataset,
        question_id,
        position,
        linker,
        spot,
        n_candidates,
        entity_id,
        article_title,
        link_probability,
        rho
    from source

)

select * from final
