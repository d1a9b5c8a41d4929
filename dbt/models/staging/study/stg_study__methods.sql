with source as (

    select * from {{ source('lake', 'methods') }}

),

final as (

    select
        method,
        is_parametric,
        description
    from source

)

select * from final
