with prompts as (select * from {{ ref('stg_study__prompts') }}),

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
        declines,
        n_samples,
        temperature
    from prompts

)

select * from final
