with source as (

    select * from {{ source('lake', 'grounding_prompts') }}

),

final as (

    select
        grounding_prompt,
        grounding_kind,
        position_in_study,
        text,
        datasets,
        methods
    from source

)

select * from final
