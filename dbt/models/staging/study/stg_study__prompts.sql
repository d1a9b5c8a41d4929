with source as (

    select * from {{ source('lake', 'prompts') }}

),

final as (

    select
        prompt,
        format,
        shots,
        draw,
        asks
    from source

)

select * from final
