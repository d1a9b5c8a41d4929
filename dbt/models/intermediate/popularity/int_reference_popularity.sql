-- If a question names several entities, the least popular one counts (PopQA, appendix A).
with questions as (select * from {{ ref('stg_reference__questions') }}),
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
        coalesce(mentions.entity_id, mentions.article_title) as linked_to,
        case
            when mentions.entity_id is null then mean_views.popularity
            else entity_popularity.popularity
        end as popularity
    from mentions
    left join entity_popularity on mentions.entity_id = entity_popularity.entity_id
    left join mean_views on mentions.article_title = mean_views.article_title

),

final as (

    select
        questions.dataset,
        questions.question_id,
        count(distinct linked.linked_to) as n_entities,
        count(distinct linked.linked_to) filter (where linked.popularity is not null) as n_entities_with_popularity,
        min(linked.popularity) as popularity
    from questions
    left join linked
        on
            questions.dataset = linked.dataset
            and questions.question_id = linked.question_id
    group by questions.dataset, questions.question_id

)

select * from final
