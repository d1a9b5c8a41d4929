with source as (

    select * from {{ source('lake', 'sampled_answers') }}
    where {{ is_declared(['dataset', 'model', 'prompt'], generations='samples') }}

),

prompts as (

    select
        prompt,
        n_samples,
        temperature
    from {{ ref('stg_study__prompts') }}

),

-- Samples from a time when the study asked for more samples or another temperature do not belong to this study.
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
