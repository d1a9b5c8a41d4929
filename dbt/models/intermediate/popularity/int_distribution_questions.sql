-- If a question names several entities, the least popular one counts (PopQA, appendix A).
with questions as (select * from {{ ref('int_questions_by_relation') }}),
reference_questions as (select * from {{ ref('stg_reference__questions') }}),
mentions as (select * from {{ ref('stg_reference__mentions') }}),
entity_popularity as (select * from {{ ref('int_entity_popularity') }}),
page_views as (select * from {{ ref('stg_reference__page_views') }}),
popularity_window as (select * from {{ ref('int_popularity_window') }}),

mean_views as (

    select
        page_views.article_title,
        avg(page_views.views) as popularity
    from page_views
    inner join popularity_window
        on page_views.month between popularity_window.first_month and popularity_window.last_month
    where popularity_window.measure = 'page_views'
    group by page_views.article_title

),

linked as (

    select
        mentions.dataset,
        mentions.question_id,
        case
            when mentions.entity_id is null then mean_views.popularity
            else entity_popularity.popularity
        end as popularity
    from mentions
    left join entity_popularity using (entity_id)
    left join mean_views using (article_title)

),

final as (

    select
        dataset,
        question_id,
        relation,
        false as is_reference,
        subject_popularity as popularity
    from questions
    union all
    select
        reference_questions.dataset,
        reference_questions.question_id,
        'all' as relation,
        true as is_reference,
        min(linked.popularity) as popularity
    from reference_questions
    left join linked using (dataset, question_id)
    group by reference_questions.dataset, reference_questions.question_id

)

select * from final
