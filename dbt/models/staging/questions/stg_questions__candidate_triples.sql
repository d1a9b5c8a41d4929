with source as (

    select * from {{ source('lake', 'candidate_triples') }}

),

final as (

    select
        subject_id,
        property_id,
        object_id,
        relation,
        popularity_measure,
        popularity,
        factor,
        frequency,
        draw,
        threshold,
        outcome
    from source

)

select * from final
