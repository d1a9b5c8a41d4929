with prompts as (select * from {{ ref('stg_study__grounding_prompts') }}),

final as (

    select
        grounding_prompt,
        grounding_kind,
        position_in_study,
        text,
        assembly,
        datasets,
        methods
    from prompts

)

select * from final
