{%- set key = 'dataset, prompt, model, method, relation' -%}
with answers as (

    select * from {{ ref('int_answers_by_relation') }}

),

accuracy_by_popularity as (

    select * from {{ ref('fct_accuracy_by_popularity') }}

),

counted as (

    select
        {{ key }},
        count(*) filter (where subject_popularity > 0) as n,
        count(*) filter (where subject_popularity = 0) as n_zero_popularity,
        count(*) filter (where subject_popularity is null) as n_missing_popularity
    from answers
    group by {{ key }}

),

ranked as (

    select
        {{ key }},
        log10(subject_popularity) as log_popularity,
        is_correct::integer as correct,
        {{ average_rank('subject_popularity', key) }} as popularity_rank,
        {{ average_rank('is_correct', key) }} as correct_rank
    from answers
    where subject_popularity > 0

),

unbinned as (

    select
        {{ key }},
        {{ correlation('log_popularity', 'correct') }} as point_biserial,
        {{ correlation('popularity_rank', 'correct_rank') }} as spearman
    from ranked
    group by {{ key }}

),

binned as (

    select
        {{ key }},
        count(*) as n_bins,
        {{ correlation('bin_center_log10', 'accuracy', minimum=3) }} as pearson_binned
    from accuracy_by_popularity
    group by {{ key }}

),

final as (

    select
        counted.*,
        coalesce(binned.n_bins, 0) as n_bins,
        binned.pearson_binned,
        unbinned.point_biserial,
        unbinned.spearman
    from counted
    left join unbinned using ({{ key }})
    left join binned using ({{ key }})

)

select * from final
