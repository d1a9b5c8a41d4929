with source as (

    select * from {{ source('lake', 'relations') }}

),

final as (

    select
        relation_set,
        relation,
        property_id,
        template,
        statement
    from source

)

select * from final
