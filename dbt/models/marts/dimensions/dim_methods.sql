with methods as (

    select * from {{ ref('stg_study__methods') }}

),

final as (

    select
        method,
        is_parametric,
        description,
        background_template
    from methods

)

select * from final
