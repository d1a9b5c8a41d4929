with prompts as (

    select * from {{ ref('stg_study__prompts') }}

),

final as (

    select
        prompt,
        format,
        shots,
        draw,
        asks
    from prompts

)

select * from final
