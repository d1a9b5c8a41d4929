with source as (

    select * from {{ source('lake', 'datasets') }}

),

final as (

    select
        dataset,
        source,
        relations,
        snapshot
    from source

)

select * from final
