with source as (

    select * from {{ source('lake', 'methods') }}

),

final as (

    select
        method,
        is_parametric,
        description,
        background_template
    from source

)

select * from final
