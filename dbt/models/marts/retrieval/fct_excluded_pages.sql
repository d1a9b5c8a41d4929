with pages as (select * from {{ ref('stg_retrieval__excluded_pages') }}),

final as (

    select
        collection,
        kind,
        count(*) as n,
        count(*) filter (where kind = 'redirect' and target_title is null) as n_without_target,
        count(target_section) as n_with_section
    from pages
    group by collection, kind

)

select * from final
