with source as (

    select * from {{ source('lake', 'datasets') }}

),

final as (

    select
        dataset,
        position_in_study,
        source,
        relation_set,
        relations,
        snapshot,
        chosen_by,
        split_by
    from source

)

select * from final
