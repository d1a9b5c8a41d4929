with source as (

    select * from {{ source('lake', 'methods') }}

),

final as (

    select
        method,
        is_parametric,
        is_bound,
        description,
        background_template,
        background_tokens
    from source

)

select * from final
