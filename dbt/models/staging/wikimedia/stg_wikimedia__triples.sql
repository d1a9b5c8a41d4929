with source as (

    select * from {{ source('lake', 'triples') }}

),

final as (

    select
        subject_id,
        property_id,
        object_id,
        relation,
        source
    from source

)

select * from final
