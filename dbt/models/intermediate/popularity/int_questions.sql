with questions as (select * from {{ ref('stg_questions__questions') }}),
popularity as (select * from {{ ref('int_entity_popularity') }}),
popularity_window as (select * from {{ ref('int_popularity_window') }}),

final as (

    select
        questions.*,
        popularity.popularity as subject_popularity,
        popularity.n_popularity_months,
        popularity_window.measure as popularity_measure
    from questions
    left join popularity on questions.subject_id = popularity.entity_id
    left join popularity_window on true

)

select * from final
