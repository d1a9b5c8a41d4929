{%- set key = 'dataset, prompt, model, memory, binned_by, bin' -%}
with conflicts as (

    select
        *,
        unnest(['any', if(memory_correct, 'right', 'wrong')]) as memory
    from {{ ref('int_conflicts') }}

),

popularity_bins as (

    select * from {{ ref('int_question_bins') }}
    where relation = 'all'

),

-- A row of a conflict for each value that bins it; bins of confidence are fifths of its range.
measured as (

    select
        *,
        'none' as binned_by,
        0 as bin,
        null::double as bin_low,
        null::double as bin_high
    from conflicts
    union all
    select
        conflicts.*,
        'popularity' as binned_by,
        popularity_bins.bin,
        popularity_bins.bin_low,
        popularity_bins.bin_high
    from conflicts
    inner join popularity_bins
        on conflicts.dataset = popularity_bins.dataset and conflicts.question_id = popularity_bins.question_id
    union all
    select
        *,
        'confidence' as binned_by,
        least(floor(confidence * 5)::integer, 4) as bin,
        least(floor(confidence * 5)::integer, 4) / 5 as bin_low,
        (least(floor(confidence * 5)::integer, 4) + 1) / 5 as bin_high
    from conflicts
    where confidence is not null

),

counted as (

    select
        {{ key }},
        any_value(bin_low) as bin_low,
        any_value(bin_high) as bin_high,
        count(*) filter (where outcome != 'undecided') as n,
        count(*) filter (where outcome = 'memory') as n_memory,
        count(*) filter (where outcome = 'passage') as n_passage,
        count(*) filter (where outcome = 'other') as n_other,
        count(*) filter (where outcome = 'undecided') as n_undecided
    from measured
    group by {{ key }}

),

final as (

    select
        *,
        {{ rate('n_memory', 'n', 'share_memory') }},
        {{ rate('n_passage', 'n', 'share_passage') }},
        {{ rate('n_other', 'n', 'share_other') }}
    from counted

)

select * from final
