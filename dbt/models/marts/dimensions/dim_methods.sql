with methods as (

    select * from {{ ref('stg_study__methods') }}

),

final as (

    select
        method,
        is_parametric,
        description
    from methods

)

select * from final
