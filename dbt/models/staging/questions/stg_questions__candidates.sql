with source as (

    select * from {{ source('lake', 'candidates') }}
    where {{ is_declared(['dataset']) }}

),

final as (

    select
        dataset,
        relation,
        candidate
    from source

)

select * from final
