with questions as (select * from {{ ref('stg_questions__questions') }}),
popularity as (select * from {{ ref('int_entity_popularity') }}),
popularity_window as (select * from {{ ref('int_popularity_window') }}),
counted as (select * from {{ ref('stg_questions__question_counts') }}),

final as (

    select
        questions.*,
        -- Entities of imported tables (their id begins with 12 digits of the file's hash) have one popularity and
        -- passage each, so that a subject may have several: all of one name are a cluster. Without a subject, a
        -- question that stands under several ids is one.
        coalesce(
            case
                when regexp_matches(questions.subject_id, '^[0-9a-f]{12}-')
                    then min(questions.subject_id) over (
                        partition by questions.dataset, coalesce(questions.subject, questions.question)
                    )
                else questions.subject_id
            end,
            'question ' || min(questions.question_id) over (partition by questions.dataset, questions.question)
        ) as cluster_id,
        coalesce(popularity.popularity, counted.n_counted) as subject_popularity,
        popularity.n_popularity_months,
        popularity_window.measure as popularity_measure
    from questions
    left join popularity on questions.subject_id = popularity.entity_id
    left join popularity_window on true
    left join counted
        on
            questions.dataset = counted.dataset
            and questions.question_id = counted.question_id
            and popularity_window.measure = counted.count_measure

)

select * from final
