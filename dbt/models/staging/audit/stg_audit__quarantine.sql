with source as (

    select * from {{ source('lake', 'quarantine') }}

),

final as (

    select
        table_name,
        partition,
        row_key,
        reason,
        raw
    from source

)

select * from final
