with source as (

    select * from {{ source('lake', 'models') }}

),

final as (

    select
        model,
        family,
        n_parameters,
        backend,
        path,
        revision,
        dtype,
        quantisation,
        is_encoder_decoder,
        is_instruction_tuned,
        n_passages,
        rambles,
        sentence_splitter,
        device_hour_usd
    from source

)

select * from final
