-- PopQA, limitations (popularity is measured at one moment): which subjects gained or lost most readers, from the
-- earlier half of the months to the later half? The query compares medians, because a single month may be empty. It
-- asks for at least ten views per month in either half, because otherwise a few more readers would lead the list.
with halves as (

    select
        entity_id,
        month,
        popularity,
        ntile(2) over (partition by entity_id order by month) as half
    from {{ ref('fct_popularity_history') }}
    where measure = 'page_views' and popularity is not null

),

compared as (

    select
        entity_id,
        count(*) as n_months,
        min(month) as first_month,
        min(month) filter (where half = 2) as later_half_from,
        max(month) as last_month,
        median(popularity) filter (where half = 1) as earlier_views,
        median(popularity) filter (where half = 2) as later_views
    from halves
    group by entity_id

)

select
    compared.entity_id,
    entities.label,
    compared.n_months,
    compared.first_month,
    compared.later_half_from,
    compared.last_month,
    compared.earlier_views,
    compared.later_views,
    round(compared.later_views / compared.earlier_views, 2) as ratio
from compared
inner join {{ ref('dim_entities') }} as entities using (entity_id)
where
    entities.n_facts > 0
    and compared.n_months >= 6
    and least(compared.earlier_views, compared.later_views) >= 10
order by abs(ln(compared.later_views / compared.earlier_views)) desc, compared.entity_id asc
limit 100
