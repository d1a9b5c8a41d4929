with questions as (select * from {{ ref('int_questions') }}),
datasets as (select * from {{ ref('stg_study__datasets') }}),

numbered as (

    select
        questions.dataset,
        questions.question_id,
        case
            when datasets.split_by = 'subject' and questions.subject_id is not null then questions.cluster_id
            else questions.question_id
        end as unit,
        unnest(range({{ var('adaptive_splits') }}))::integer as split
    from questions
    left join datasets using (dataset)
    -- Of a dataset without popularity, all questions are split: decisions of others need no popularity.
    where
        questions.subject_popularity is not null
        or questions.dataset not in (
            select q.dataset from questions as q
            where q.subject_popularity is not null
        )

),

-- Questions of one unit share their rank: one more than the number of questions in the units before it.
ordered as (

    select
        dataset,
        question_id,
        split,
        rank() over (
            partition by dataset, split
            order by {{ split_order('split', 'unit') }}, unit
        ) as position,
        count(*) over (partition by dataset, split) as n_questions
    from numbered

),

final as (

    select
        dataset,
        split,
        question_id,
        position <= {{ n_training('n_questions') }} as is_training
    from ordered

)

select * from final
