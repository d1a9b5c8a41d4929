with datasets as (select * from {{ ref('stg_study__datasets') }}),
questions as (select * from {{ ref('int_questions') }}),
popularity_window as (select * from {{ ref('int_popularity_window') }}),

counted as (

    select
        dataset,
        count(*) as n_questions,
        count(subject_popularity) as n_questions_with_popularity,
        count(*) filter (where subject_id is null) as n_questions_without_subject,
        count(*) filter (where relation is null) as n_questions_without_relation
    from questions
    group by dataset

),

-- Only page views have months. Sitelinks and imported popularity are one number per entity.
final as (

    select
        datasets.dataset,
        datasets.position_in_study,
        datasets.source,
        datasets.relation_set,
        datasets.relations,
        datasets.snapshot,
        datasets.chosen_by,
        datasets.split_by,
        datasets.popularity_name,
        popularity_window.measure,
        coalesce(counted.n_questions, 0) as n_questions,
        coalesce(counted.n_questions_with_popularity, 0) as n_questions_with_popularity,
        coalesce(counted.n_questions_without_subject, 0) as n_questions_without_subject,
        coalesce(counted.n_questions_without_relation, 0) as n_questions_without_relation,
        case when popularity_window.measure = 'page_views' then popularity_window.n_months end as n_months,
        case when popularity_window.measure = 'page_views' then popularity_window.first_month end as first_month,
        case when popularity_window.measure = 'page_views' then popularity_window.last_month end as last_month,
        case when popularity_window.measure = 'page_views' then popularity_window.redirects end as redirects,
        case when popularity_window.measure = 'page_views' then popularity_window.agent end as agent
    from datasets
    left join popularity_window on true
    left join counted using (dataset)

)

select * from final
