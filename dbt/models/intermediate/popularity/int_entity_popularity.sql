with entities as (select * from {{ ref('stg_wikimedia__entities') }}),
page_views as (select * from {{ ref('stg_wikimedia__page_views') }}),
imported as (select * from {{ ref('stg_imports__popularity') }}),
popularity_window as (

    {{ popularity_window() }}

),

-- Months without a row or with null views are missing: the mean leaves them out.
mean_views as (

    select
        page_views.entity_id,
        avg(page_views.views) as views,
        count(page_views.views) as n_months
    from page_views
    inner join popularity_window
        on page_views.month between popularity_window.first_month and popularity_window.last_month
    group by page_views.entity_id

),

final as (

    select
        entities.entity_id,
        popularity_window.measure as popularity_measure,
        case popularity_window.measure
            when 'page_views' then mean_views.views
            when 'sitelinks' then entities.sitelinks::double
            when 'imported' then imported.popularity
        end as popularity,
        case popularity_window.measure
            when 'page_views' then coalesce(mean_views.n_months, 0)
        end as n_popularity_months
    from entities
    left join popularity_window on true
    left join mean_views using (entity_id)
    left join imported using (entity_id)

)

select * from final
