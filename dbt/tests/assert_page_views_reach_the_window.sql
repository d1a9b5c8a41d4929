-- Freshness: the newest month of page views is at least the last month of the window.
with popularity_window as (

    select last_month
    from {{ ref('int_popularity_window') }}
    where measure = 'page_views'

),

newest as (

    select max(month) as month
    from {{ ref('stg_wikimedia__page_views') }}

)

select
    popularity_window.last_month,
    newest.month as newest_month
from popularity_window
cross join newest
where newest.month < popularity_window.last_month
