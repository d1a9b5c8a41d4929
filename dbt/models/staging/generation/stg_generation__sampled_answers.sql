with source as (

    select * from {{ source('lake', 'sampled_answers') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], asks='samples') }}

),

prompts as (

    select
        prompt,
        n_samples,
        temperature
    from {{ ref('stg_study__prompts') }}

),

-- Samples drawn while the study asked for more of them, or at another temperature, are not this study's.
final as (

    select
        source.*,
        {{ generation_key() }} as generation_key,
        prompts.n_samples
    from source
    inner join prompts
        on
            source.prompt = prompts.prompt
            and source.temperature = prompts.temperature
            and source.sample < prompts.n_samples

)

select * from final
