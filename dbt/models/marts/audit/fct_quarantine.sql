with quarantine as (select * from {{ ref('stg_audit__quarantine') }}),

final as (

    select
        table_name,
        partition,
        reason,
        count(*) as n,
        min(row_key) as example_row_key
    from quarantine
    group by table_name, partition, reason

)

select * from final
