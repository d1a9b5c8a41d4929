with source as (

    select * from {{ source('lake', 'model_prices') }}
    where {{ is_declared(['model']) }}

),

final as (

    select
        model,
        valid_from::date as valid_from,
        prompt_usd_per_million,
        completion_usd_per_million,
        source
    from source

)

select * from final
