with questions as (

    select * from {{ ref('int_questions_by_relation') }}
    where subject_popularity is not null

),

-- Questions of equal popularity have the same rank, so that no order of rows decides between them.
ranked as (

    select
        *,
        rank() over (partition by dataset, relation order by subject_popularity) as popularity_rank,
        count(*) over (partition by dataset, relation) as n_questions
    from questions

),

numbered as (

    select
        *,
        (10 * (popularity_rank - 1) // n_questions)::integer as decile
    from ranked

),

deciles as (

    select
        dataset,
        question_id,
        relation,
        'deciles' as binning,
        decile as bin,
        min(subject_popularity) over (partition by dataset, relation, decile) as bin_low,
        max(subject_popularity) over (partition by dataset, relation, decile) as bin_high
    from numbered

),

final as (

    select * from deciles

    union all

    select
        dataset,
        question_id,
        relation,
        'equal_width' as binning,
        bin,
        bin_low,
        bin_high
    from {{ ref('int_question_bins') }}

)

select * from final
