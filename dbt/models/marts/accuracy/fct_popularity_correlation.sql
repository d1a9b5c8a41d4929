{%- set key = 'dataset, prompt, model, method, relation' -%}
{%- set measures = ['point_biserial', 'spearman', 'point_biserial_within', 'spearman_within'] -%}
with unbinned as (select * from {{ ref('int_popularity_correlation') }}),
within_relations as (select * from {{ ref('int_correlation_within_relations') }}),

intervals as (

    select * rename (n_answers as n) from {{ ref('int_correlation_intervals') }}

),

binned as (

    select
        {{ key }},
        count(*) as n_bins,
        {{ correlation('bin_center_log10', 'accuracy', minimum=3) }} as pearson_binned,
        {{ why_undefined('bin_center_log10', 'accuracy', 'popularity', 'accuracy', 'bins', minimum=3) }}
            as pearson_binned_undefined
    from {{ ref('fct_accuracy_by_popularity') }}
    group by {{ key }}

),

joined as (

    select
        unbinned.*,
        coalesce(binned.n_bins, 0) as n_bins,
        binned.pearson_binned,
        case when binned.n_bins is null then 'too few bins' else binned.pearson_binned_undefined end
            as pearson_binned_undefined,
        if(relation = 'all', coalesce(within_relations.n_within, 0), unbinned.n) as n_within,
        within_relations.point_biserial_within,
        within_relations.spearman_within,
        case
            when relation <> 'all' then 'one relation'
            when within_relations.n_within is null then 'too few answers'
            else within_relations.within_undefined
        end as within_undefined
    from unbinned
    left join binned using ({{ key }})
    left join within_relations using ({{ key }})

),

final as (

    select
        joined.*,
        joined.n - joined.n_within as n_missing_relation,
        intervals.n_subjects,
        {% for measure in measures -%}
        intervals.{{ measure }}_low as {{ measure }}_ci_low,
        intervals.{{ measure }}_high as {{ measure }}_ci_high,
        {% endfor -%}
        case
            when intervals.spearman_low is null
                then coalesce(joined.unbinned_undefined, intervals.no_interval, 'not computed')
        end as no_interval,
        case
            when intervals.spearman_within_low is null
                then coalesce(joined.within_undefined, intervals.no_interval_within, 'not computed')
        end as no_interval_within
    from joined
    -- Also by the numbers of answers: an interval over other answers does not belong to this row.
    left join intervals using ({{ key }}, n, n_within)

)

select * from final
