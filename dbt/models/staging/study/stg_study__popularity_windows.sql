with source as (

    select * from {{ source('lake', 'popularity_windows') }}

),

final as (

    select
        measure,
        n_months,
        last_month,
        redirects
    from source

)

select * from final
