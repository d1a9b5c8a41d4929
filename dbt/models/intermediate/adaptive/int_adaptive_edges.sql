-- Candidates of search binned10: the lowest popularity (never), the edges of ten bins, and infinity (always).
with by_relation as (

    select
        pair_id,
        {{ relation_groups() }} as relation,
        subject_popularity as popularity
    from {{ ref('int_answer_pairs') }}
    where pair_id is not null and subject_popularity is not null

),

ranges as (

    select
        pair_id,
        relation,
        min(popularity) as lowest,
        min(popularity) filter (where popularity > 0) as low,
        max(popularity) as high
    from by_relation
    group by pair_id, relation

),

candidates as (

    select
        pair_id,
        relation,
        lowest as threshold_popularity
    from ranges
    union
    select
        ranges.pair_id,
        ranges.relation,
        {{ log_edge('ranges.low', 'ranges.high', 'edges.index', '10') }} as threshold_popularity
    from ranges
    cross join range(10) as edges (index)
    where ranges.low is not null and (ranges.low < ranges.high or edges.index = 0)
    union
    select
        pair_id,
        relation,
        'infinity'::double as threshold_popularity
    from ranges

),

final as (

    select
        *,
        min(threshold_popularity) over (partition by pair_id, relation) as never
    from candidates

)

select * from final
