{%- set newest_months = 24 -%}
-- Undated measures do not drift, so they have no rows.
with questions as (select * from {{ ref('int_questions') }}),
page_views as (select * from {{ ref('stg_wikimedia__page_views') }}),

months as (

    select distinct month
    from page_views
    order by month desc
    limit {{ newest_months }}

),

final as (

    select
        questions.dataset,
        months.month,
        questions.question_id,
        page_views.views::double as month_popularity,
        questions.subject_popularity as window_popularity
    from questions
    cross join months
    left join page_views
        on
            questions.subject_id = page_views.entity_id
            and months.month = page_views.month
    where questions.popularity_measure = 'page_views'

)

select * from final
