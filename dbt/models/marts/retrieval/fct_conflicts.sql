{%- set key = 'dataset, prompt, model, memory, binned_by, bin' -%}
with conflicts as (

    select *, unnest(['any', if(memory_correct, 'right', 'wrong')]) as memory  -- noqa: LT09
    from {{ ref('int_conflicts') }}

),
popularity_bins as (select * from {{ ref('int_question_bins') }} where relation = 'all'),

-- A row of a conflict for each value that bins it; bins of confidence are fifths of its range.
measured as (

    select
        *,
        'none' as binned_by,
        0 as bin
    from conflicts
    union all by name
    select
        conflicts.*,
        'popularity' as binned_by,
        popularity_bins.* exclude (dataset, question_id, relation, bin_center_log10)  -- noqa: RF02
    from conflicts
    inner join popularity_bins using (dataset, question_id)
    union all by name
    select
        *,
        'confidence' as binned_by,
        least(floor(confidence * 5)::integer, 4) as bin,
        bin / 5 as bin_low,
        (bin + 1) / 5 as bin_high
    from conflicts
    where confidence is not null

),

subjects as (

    select
        {{ key }},
        cluster_id,
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        {%- for outcome in ['memory', 'passage', 'other', 'undecided'] %}
        count(*) filter (where outcome = '{{ outcome }}') as n_{{ outcome }},
        {%- endfor %}
        count(*) filter (where outcome != 'undecided') as n
    from measured
    group by {{ key }}, cluster_id

),

counted as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        {{ sums(['n', 'n_memory', 'n_passage', 'n_other', 'n_undecided']) }},
        {{ subject_sums('n_memory') }} as to_memory,
        {{ subject_sums('n_passage') }} as to_passage,
        {{ subject_sums('n_other') }} as to_other
    from subjects
    group by {{ key }}

),

final as (

    select
        * exclude (to_memory, to_passage, to_other),
        {{ subjects_and_deff('to_memory') }},
        {{ rate('to_memory', 'share_memory') }},
        {{ rate('to_passage', 'share_passage') }},
        {{ rate('to_other', 'share_other') }}
    from counted

)

select * from final
