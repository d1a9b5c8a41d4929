-- Questions of equal popularity at an edge are in the order of their ids.
with first_hits as (

    select * from {{ ref('int_first_hits') }}
    where subject_popularity is not null

),

thirds as (

    select
        *,
        ntile(3) over (partition by dataset, retriever order by subject_popularity, question_id) as third
    from first_hits

),

final as (

    select
        dataset,
        retriever,
        third::integer as third,
        min(subject_popularity) as popularity_low,
        max(subject_popularity) as popularity_high,
        count(*) as n,
        {{ recall_rates(['']) }}
    from thirds
    group by dataset, retriever, third

)

select * from final
