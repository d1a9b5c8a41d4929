with source as (

    select * from {{ source('lake', 'prompts') }}

),

final as (

    select
        prompt,
        position_in_study,
        format,
        template,
        encoder_decoder_template,
        shots,
        draw,
        demonstrations_from,
        reference_demos,
        max_new_tokens,
        generations,
        methods,
        n_samples,
        temperature
    from source

)

select * from final
