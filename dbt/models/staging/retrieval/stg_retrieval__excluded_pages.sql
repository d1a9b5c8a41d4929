with source as (

    select * from {{ source('lake', 'excluded_pages') }}

),

final as (

    select
        collection,
        page_number,
        title,
        kind,
        target_title,
        target_section
    from source

)

select * from final
