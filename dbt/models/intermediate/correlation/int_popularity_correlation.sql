{%- set key = 'dataset, prompt, model, method, relation' -%}
{%- set known = key ~ ', coalesce(subject_popularity > 0, false)' -%}
with answers as (select * from {{ ref('int_answers_by_relation') }}),

-- Only answers with popularity above 0 have ranks. The ranks of right and wrong are two values, so correctness itself
-- gives the same correlation as its ranks.
ranked as (

    select
        {{ key }},
        subject_popularity,
        case when subject_popularity > 0 then log10(subject_popularity) end as log_popularity,
        case when subject_popularity > 0 then is_correct::integer end as correct,
        case when subject_popularity > 0 then {{ average_rank('subject_popularity', known) }} end as popularity_rank
    from answers

),

final as (

    select
        {{ key }},
        count(correct) as n,
        count(*) filter (where subject_popularity = 0) as n_zero_popularity,
        count(*) filter (where subject_popularity is null) as n_missing_popularity,
        {{ correlation('log_popularity', 'correct') }} as point_biserial,
        {{ correlation('popularity_rank', 'correct') }} as spearman,
        {{ why_undefined('log_popularity', 'correct', 'popularity', 'correctness', 'answers') }}
            as unbinned_undefined
    from ranked
    group by {{ key }}

)

select * from final
