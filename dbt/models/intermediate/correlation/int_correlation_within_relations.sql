{%- set key = 'dataset, prompt, model, method' -%}
-- A question without a relation has no mean to be compared with, so it is left out.
with answers as (

    select *
    from {{ ref('int_answers_by_relation') }}
    where relation <> 'all' and subject_popularity > 0

),

-- Deviations from the means of the relation. The rank deviates by (answers below - answers above) / answers. Without
-- the division, a relation would count by the square of its size. The same deviation of right and wrong is `correct`.
deviations as (

    select
        {{ key }},
        is_correct::integer - avg(is_correct::integer) over same_relation as correct,
        log10(subject_popularity) - avg(log10(subject_popularity)) over same_relation as log_popularity,
        (2 * ({{ average_rank('subject_popularity', key ~ ', relation') }}) - 1) / count(*) over same_relation - 1
            as popularity_rank,
        min(subject_popularity) over same_relation < max(subject_popularity) over same_relation as popularity_varies,
        bool_or(is_correct) over same_relation and not bool_and(is_correct) over same_relation as correctness_varies
    from answers
    window same_relation as (partition by {{ key }}, relation)

),

-- Pearson's correlation, whose means are 0 here.
correlated as (

    select
        {{ key }},
        count(*) as n_within,
        {%- for measure, x in [('point_biserial', 'log_popularity'), ('spearman', 'popularity_rank')] %}
        sum({{ x }} * correct) / sqrt(sum({{ x }} * {{ x }}) * sum(correct * correct)) as {{ measure }}_within,
        {%- endfor %}
        case
            when count(*) < 2 then 'too few answers'
            when not bool_or(popularity_varies) then 'no variance of popularity'
            when not bool_or(correctness_varies) then 'no variance of correctness'
        end as within_undefined
    from deviations
    group by {{ key }}

),

-- Rounded deviations may vary where the values do not. So the reason decides, not the variance of the deviations.
final as (

    select
        {{ key }},
        'all' as relation,
        n_within,
        if(within_undefined is null, point_biserial_within, null) as point_biserial_within,
        if(within_undefined is null, spearman_within, null) as spearman_within,
        within_undefined
    from correlated

)

select * from final
