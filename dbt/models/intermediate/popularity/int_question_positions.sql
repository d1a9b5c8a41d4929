with questions as (

    select * from {{ ref('int_questions') }}
    where subject_popularity is not null

),

levels as (select * from {{ ref('int_popularity_levels') }}),

spreads as (

    select
        dataset,
        relation,
        avg(log10(subject_popularity)) as mean_log10,
        case
            when min(subject_popularity) < max(subject_popularity) then stddev_pop(log10(subject_popularity))
        end as sd_log10
    from questions
    where subject_popularity > 0
    group by dataset, relation

),

-- Rounded, because another order of summation must not move a question across the edge of a bin.
final as (

    select
        questions.dataset,
        questions.question_id,
        questions.relation,
        questions.subject_popularity,
        levels.level,
        row_number() over (
            partition by questions.dataset
            order by questions.subject_popularity, questions.question_id
        ) as popularity_rank,
        case
            when questions.subject_popularity > 0
                then round((log10(questions.subject_popularity) - spreads.mean_log10) / spreads.sd_log10, 9)
        end as relative_popularity
    from questions
    inner join levels
        on
            questions.subject_popularity >= levels.popularity_low
            and questions.subject_popularity < levels.popularity_high
    left join spreads using (dataset, relation)

)

select * from final
