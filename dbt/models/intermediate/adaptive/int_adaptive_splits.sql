with questions as (

    select * from {{ ref('int_questions') }}

),

numbered as (

    select
        dataset,
        question_id,
        unnest(range({{ var('adaptive_splits') }}))::integer as split
    from questions
    where subject_popularity is not null

),

ordered as (

    select
        dataset,
        question_id,
        split,
        row_number() over (
            partition by dataset, split
            order by {{ split_order('split', 'question_id') }}, question_id
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
