with methods as (

    select * from {{ ref('stg_study__methods') }}

),

final as (

    select
        method,
        is_parametric,
        is_bound,
        description,
        background_template,
        background_tokens
    from methods

)

select * from final
