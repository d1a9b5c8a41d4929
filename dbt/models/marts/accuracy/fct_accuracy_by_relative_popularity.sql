{%- set key = 'dataset, prompt, model, method, relation' -%}
with answers as (select * from {{ ref('int_answers') }}),
positions as (select * exclude (relation) from {{ ref('int_question_positions') }}),

-- First by relation: a subject's row for all relations is then the sum of a few rows.
counted as (

    select
        {{ key }},
        floor(positions.relative_popularity / 0.5)::integer as bin,
        answers.cluster_id,
        count(*) as n,
        count(*) filter (where answers.is_correct) as n_correct,
        count(*) filter (where positions.subject_popularity = 0) as n_zero,
        count(*) filter (where positions.question_id is null) as n_missing,
        count(*) filter (where positions.subject_popularity > 0 and answers.relation is null) as n_unrelated,
        count(*) filter (where positions.subject_popularity > 0 and positions.relative_popularity is null) as n_flat
    from answers
    left join positions using (dataset, question_id)
    group by {{ key }}, bin, answers.cluster_id

),

by_relation as (

    select * replace ({{ relation_groups() }} as relation) from counted

),

subjects as (

    select
        {{ key }},
        bin,
        cluster_id,
        {{ sums(['n', 'n_correct', 'n_zero', 'n_missing', 'n_unrelated', 'n_flat']) }}
    from by_relation
    group by {{ key }}, bin, cluster_id

),

-- A group without any relative popularity keeps one row, which has the reason.
binned as (

    select
        {{ key }},
        bin,
        coalesce(sum(n) filter (where bin is not null), 0)::bigint as n,
        coalesce(sum(n_correct) filter (where bin is not null), 0)::bigint as n_correct,
        {{ subject_sums('if(bin is null, 0, n_correct)', 'if(bin is null, 0, n)') }} as correct,
        sum(sum(n_zero)) over (partition by {{ key }})::bigint as n_zero_popularity,
        sum(sum(n_missing)) over (partition by {{ key }})::bigint as n_missing_popularity,
        sum(sum(n_flat - n_unrelated)) over (partition by {{ key }})::bigint as n_without_variance,
        sum(sum(n_unrelated)) over (partition by {{ key }})::bigint as n_without_relation
    from subjects
    group by {{ key }}, bin
    qualify bin is not null or count(bin) over (partition by {{ key }}) = 0

),

final as (

    select
        * exclude (correct),
        bin * 0.5::double as z_low,
        (bin + 1) * 0.5::double as z_high,
        {{ subjects_and_deff('correct') }},
        {{ rate('correct', 'accuracy', 'ci') }},
        case
            when n > 0 then null
            when n_without_variance > 0 then 'no variance of popularity'
            when n_without_relation > 0 then 'no relation'
            when n_zero_popularity > 0 then 'popularity is 0'
            else 'popularity is missing'
        end as undefined
    from binned

)

select * from final
