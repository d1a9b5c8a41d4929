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
        ranked.*,
        parts.binning,
        (parts.n_bins * (ranked.popularity_rank - 1) // ranked.n_questions)::integer as bin
    from ranked
    cross join (values ('deciles', 10), ('quarters', 4)) as parts (binning, n_bins)

),

quantiles as (

    select
        dataset,
        question_id,
        relation,
        binning,
        bin,
        min(subject_popularity) over (partition by dataset, relation, binning, bin) as bin_low,
        max(subject_popularity) over (partition by dataset, relation, binning, bin) as bin_high
    from numbered

),

final as (

    select * from quantiles

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
