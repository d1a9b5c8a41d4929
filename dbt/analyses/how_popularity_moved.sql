-- PopQA, limitations (popularity is of one moment): whose readers grew or fell most from the first month to the last?
with monthly as (

    select
        entity_id,
        arg_min(popularity, month) as first_views,
        arg_max(popularity, month) as last_views,
        min(month) as first_month,
        max(month) as last_month
    from {{ ref('fct_popularity_history') }}
    where measure = 'page_views' and popularity is not null
    group by entity_id

)

select
    entities.label,
    monthly.first_month,
    monthly.first_views,
    monthly.last_month,
    monthly.last_views,
    round(monthly.last_views / nullif(monthly.first_views, 0), 2) as ratio
from monthly
inner join {{ ref('dim_entities') }} as entities on monthly.entity_id = entities.entity_id
where entities.n_facts > 0
order by abs(ln(greatest(monthly.last_views, 1) / greatest(monthly.first_views, 1))) desc
limit 100
