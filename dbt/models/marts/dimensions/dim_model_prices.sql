with model_prices as (select * from {{ ref('stg_study__model_prices') }}),

final as (

    select
        model,
        valid_from,
        prompt_usd_per_million,
        completion_usd_per_million,
        source
    from model_prices

)

select * from final
