with source as (

    select * from {{ source('lake', 'entity_cooccurrences') }}
    where {{ is_declared(['dataset']) }}

),

final as (

    select
        dataset,
        question_id,
        named_by,
        entity_names,
        n_cooccurrences
    from source

)

select * from final
