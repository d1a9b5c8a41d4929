{%- set per_decade = 2 -%}
with questions as (select * from {{ ref('int_distribution_questions') }}),

groups as (

    select
        dataset,
        relation,
        is_reference,
        count(*) as n_questions,
        count(*) filter (where popularity is null) as n_missing,
        count(*) filter (where popularity = 0) as n_zero,
        count(*) filter (where popularity > 0) as n_above_zero
    from questions
    group by dataset, relation, is_reference

),

-- The logarithm is rounded, so near an edge the edges in views decide.
numbered as (

    select
        dataset,
        relation,
        popularity,
        floor(log10(popularity) * {{ per_decade }})::integer as near
    from questions
    where popularity > 0

),

counted as (

    select
        dataset,
        relation,
        near
        - (popularity < pow(10, near / {{ per_decade }}))::integer
        + (popularity >= pow(10, (near + 1) / {{ per_decade }}))::integer as bin,
        count(*) as n
    from numbered
    group by all

),

bins as (

    select
        dataset,
        relation,
        unnest(range(min(bin), max(bin) + 1))::integer as bin
    from counted
    group by dataset, relation

),

final as (

    select
        groups.*,
        bins.bin,
        pow(10, bins.bin / {{ per_decade }}) as bin_low,
        pow(10, (bins.bin + 1) / {{ per_decade }}) as bin_high,
        (bins.bin + 0.5) / {{ per_decade }} as bin_center_log10,
        coalesce(counted.n, 0) as n,
        coalesce(counted.n, 0) / groups.n_above_zero as share,
        (sum(coalesce(counted.n, 0)) over (partition by bins.dataset, bins.relation order by bins.bin))::bigint
        / groups.n_above_zero as cumulative_share
    from bins
    inner join groups using (dataset, relation)
    left join counted using (dataset, relation, bin)

)

select * from final
